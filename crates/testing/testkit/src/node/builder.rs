//! What a test may say about its node before it starts.

use std::path::{Path, PathBuf};

use crate::node::run_binary;

/// Whose runtime a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Our own.
    Orlop,
    /// containerd, the reference: Debian's, or the one that `ORLOP_TEST_CONTAINERD` names.
    Containerd,
    /// The CRI-O that `ORLOP_TEST_CRIO` names.
    Crio,
    /// The cri-dockerd that `ORLOP_TEST_CRI_DOCKERD` names, on Debian's engine.
    CriDockerd,
}

impl Which {
    /// What the environment asks for.
    pub fn from_environment() -> Self {
        match std::env::var("ORLOP_TEST_PEER").as_deref() {
            Err(_) | Ok("") => Self::Orlop,
            Ok("containerd") => Self::Containerd,
            Ok("crio") => Self::Crio,
            Ok("cri-dockerd") => Self::CriDockerd,
            Ok(other) => {
                panic!("ORLOP_TEST_PEER is {other:?}; known are containerd, crio and cri-dockerd")
            }
        }
    }
}

/// A node being described.
#[derive(Debug, Clone)]
pub struct NodeBuilder {
    pub(super) which: Which,
    pub(super) runtime: String,
    pub(super) config: String,
    pub(super) drop_in: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    /// The directory of another version's programs.
    pub(super) programs: Option<PathBuf>,
    /// Whether the reference runs pods by our shim.
    pub(super) our_shim: bool,
    /// The server of stargz-snapshotter that the reference's images go to.
    pub(super) stargz: Option<PathBuf>,
}

impl NodeBuilder {
    pub(super) fn new(which: Which) -> Self {
        Self {
            which,
            runtime: std::env::var("ORLOP_TEST_RUNTIME").unwrap_or_else(|_| usual(which)),
            config: String::new(),
            drop_in: String::new(),
            args: Vec::new(),
            env: Vec::new(),
            programs: None,
            our_shim: match std::env::var("ORLOP_TEST_PEER_SHIM").as_deref() {
                Err(_) | Ok("") => false,
                Ok("orlop") => true,
                Ok(other) => panic!("ORLOP_TEST_PEER_SHIM is {other:?}; only orlop is known"),
            },
            stargz: None,
        }
    }

    /// The OCI runtime of its pods; if not said `$ORLOP_TEST_RUNTIME`, or ours, and runc of the
    /// reference.
    pub fn runtime(mut self, program: &str) -> Self {
        program.clone_into(&mut self.runtime);
        self
    }

    /// The configuration file, in TOML (orlop only; the reference has its own tongue).
    ///
    /// What the kit needs comes in a drop-in and wins over it.
    pub fn config(mut self, toml: &str) -> Self {
        self.config.push_str(toml);
        self.config.push('\n');
        self
    }

    /// A drop-in that wins over what the kit says, in TOML (orlop only).
    pub fn drop_in(mut self, toml: &str) -> Self {
        self.drop_in.push_str(toml);
        self.drop_in.push('\n');
        self
    }

    /// One more word on the daemon's command line (orlop only).
    pub fn arg(mut self, word: &str) -> Self {
        self.args.push(word.to_owned());
        self
    }

    /// A variable of the daemon's environment.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The programs of another version, by their directory (orlop only).
    pub fn programs(mut self, dir: &Path) -> Self {
        self.programs = Some(dir.to_owned());
        self
    }

    /// Has the reference run its pods by `containerd-shim-orlop-v1`.
    pub fn our_shim(mut self) -> Self {
        self.our_shim = true;
        self
    }

    /// Has the reference mount images while they are fetched, by a server of stargz-snapshotter
    /// ([`machine::stargz_server`](crate::machine::stargz_server)).
    pub fn stargz(mut self, server: &Path) -> Self {
        self.stargz = Some(server.to_owned());
        self
    }

    /// Fails where something is asked of another's runtime that it is not told of.
    pub(super) fn check(&self) {
        if let Some(what) = self.not_told() {
            let which = self.which;
            panic!("{what} mean nothing to a test's {which:?}; start the node with Node::orlop()");
        }
    }

    /// What the node's runtime is not told of.
    fn not_told(&self) -> Option<&'static str> {
        let is_reference = self.which == Which::Containerd;
        let asked = [
            (
                !self.config.is_empty() || !self.drop_in.is_empty(),
                "keys of orlop's",
            ),
            (!self.args.is_empty(), "flags of orlop's"),
            (self.programs.is_some(), "programs of orlop's"),
            (self.our_shim && !is_reference, "shims of orlop's"),
            (
                self.stargz.is_some() && !is_reference,
                "snapshotters of containerd's",
            ),
        ];
        let is_ours = self.which == Which::Orlop;
        let mut refused = asked
            .into_iter()
            .filter(|(is_asked, _)| *is_asked && !is_ours);
        refused.next().map(|(_, what)| what)
    }
}

fn usual(which: Which) -> String {
    match which {
        Which::Orlop => run_binary().display().to_string(),
        Which::Containerd | Which::Crio | Which::CriDockerd => "runc".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_s_runtime_is_asked_for_nothing_that_it_is_not_told_of() {
        let plain = |which| NodeBuilder {
            // Whatever the tests are run with.
            our_shim: false,
            ..NodeBuilder::new(which)
        };
        for which in [Which::Containerd, Which::Crio, Which::CriDockerd] {
            let plain = || plain(which);
            assert_eq!(plain().runtime("crun").env("A", "b").not_told(), None);
            for asks in [
                plain().config("[grpc]"),
                plain().drop_in("[grpc]"),
                plain().arg("--web"),
                plain().programs(Path::new("/opt")),
            ] {
                assert!(asks.not_told().is_some(), "{asks:?}");
            }
            let is_reference = which == Which::Containerd;
            for asks in [plain().our_shim(), plain().stargz(Path::new("/opt"))] {
                assert_eq!(asks.not_told().is_none(), is_reference);
            }
        }
        assert_eq!(plain(Which::Orlop).config("[grpc]").not_told(), None);
    }
}
