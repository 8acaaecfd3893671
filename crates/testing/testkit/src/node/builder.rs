//! Builder of a node under test.

use std::path::{Path, PathBuf};

use crate::node::run_binary;

/// Container runtime of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// orlop.
    Orlop,
    /// containerd as the reference: Debian's, or the one in `ORLOP_TEST_CONTAINERD`.
    Containerd,
    /// The CRI-O in `ORLOP_TEST_CRIO`.
    Crio,
    /// The cri-dockerd in `ORLOP_TEST_CRI_DOCKERD`, with Debian's Docker Engine.
    CriDockerd,
}

impl Which {
    /// Returns the runtime that the environment selects.
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

/// Description of a node.
#[derive(Debug, Clone)]
pub struct NodeBuilder {
    pub(super) which: Which,
    pub(super) runtime: String,
    pub(super) config: String,
    pub(super) drop_in: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    /// Directory with programs of another version.
    pub(super) programs: Option<PathBuf>,
    /// Whether the reference uses orlop's shim.
    pub(super) our_shim: bool,
    /// Server of stargz-snapshotter for the reference.
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

    /// Sets the OCI runtime. The default is `$ORLOP_TEST_RUNTIME`, or orlop's; runc for the reference.
    pub fn runtime(mut self, program: &str) -> Self {
        program.clone_into(&mut self.runtime);
        self
    }

    /// Sets the configuration file in TOML (orlop only). Settings that the test kit needs are in a drop-in and take
    /// precedence.
    pub fn config(mut self, toml: &str) -> Self {
        self.config.push_str(toml);
        self.config.push('\n');
        self
    }

    /// Adds a drop-in in TOML with precedence over the test kit's settings (orlop only).
    pub fn drop_in(mut self, toml: &str) -> Self {
        self.drop_in.push_str(toml);
        self.drop_in.push('\n');
        self
    }

    /// Adds an argument of the daemon (orlop only).
    pub fn arg(mut self, word: &str) -> Self {
        self.args.push(word.to_owned());
        self
    }

    /// Sets an environment variable of the daemon.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Uses the programs of another version from a directory (orlop only).
    pub fn programs(mut self, dir: &Path) -> Self {
        self.programs = Some(dir.to_owned());
        self
    }

    /// Lets the reference use `containerd-shim-orlop-v1`.
    pub fn our_shim(mut self) -> Self {
        self.our_shim = true;
        self
    }

    /// Lets the reference mount images lazily with a server of stargz-snapshotter
    /// ([`machine::stargz_server`](crate::machine::stargz_server)).
    pub fn stargz(mut self, server: &Path) -> Self {
        self.stargz = Some(server.to_owned());
        self
    }

    /// Panics if another runtime than orlop has settings that it does not support.
    pub(super) fn check(&self) {
        if let Some(what) = self.not_told() {
            let which = self.which;
            panic!("{what} mean nothing to a test's {which:?}; start the node with Node::orlop()");
        }
    }

    /// Returns the settings that the node's runtime does not support.
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
            // Independent of the environment of the tests.
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
