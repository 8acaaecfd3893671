//! The options that the caller sets in environment variables.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use orlop_testkit::{docker, machine};

/// All of it.
pub(crate) struct Asked {
    pub(crate) critest: Option<Critest>,
    pub(crate) kubelet: Option<Kubelet>,
    pub(crate) backends: Vec<Backend>,
    /// The socket of an engine that runs.
    pub(crate) engine: Option<PathBuf>,
    pub(crate) hosts_dir: Option<PathBuf>,
    pub(crate) report: Option<PathBuf>,
}

/// critest, and what it is told.
pub(crate) struct Critest {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
}

/// A kubelet, and the kubectl that queries it.
pub(crate) struct Kubelet {
    pub(crate) program: PathBuf,
    pub(crate) kubectl: PathBuf,
    /// `NAME=true` or `NAME=false`, each.
    pub(crate) gates: Vec<String>,
}

impl Kubelet {
    /// Returns the kubelet's name in the table.
    pub(crate) fn name(&self) -> String {
        let words = ["kubelet"].into_iter();
        let words = words.chain(self.gates.iter().map(String::as_str));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The backend that runs the pods.
pub(crate) enum Backend {
    Native(Handler),
    Docker,
}

/// A runtime of the native backend.
pub(crate) struct Handler {
    pub(crate) name: String,
    pub(crate) path: String,
}

impl Asked {
    pub(crate) fn from_environment() -> anyhow::Result<Self> {
        let said = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        Self::of(&said)
    }

    /// Reads the options from these variables.
    fn of(said: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let program = |name: &str| said(name).map(|path| executable(name, &path)).transpose();
        let critest = program("CRITEST")?.map(|program| Critest {
            program,
            args: words(said("CRITEST_ARGS")),
        });
        let kubelet = match (program("KUBELET")?, program("KUBECTL")?) {
            (Some(program), Some(kubectl)) => Some(Kubelet {
                program,
                kubectl,
                gates: gates(words(said("GATES")))?,
            }),
            (None, _) => None,
            (Some(_), None) => bail!("KUBELET is asked by a kubectl: name one, KUBECTL=…"),
        };
        if critest.is_none() && kubelet.is_none() {
            bail!(
                "name who is to judge: CRITEST=/path/to/critest, or KUBELET=/path/to/kubelet \
                 with KUBECTL=/path/to/kubectl, or all three"
            );
        }
        let engine = said("ENGINE").map(|path| PathBuf::from(path.trim_start_matches("unix://")));
        let can_docker = match &engine {
            Some(_) => Ok(()),
            None => docker::can_run(),
        };
        Ok(Self {
            critest,
            kubelet,
            backends: backends(words(said("BACKENDS")), words(said("HANDLERS")), can_docker)?,
            engine,
            hosts_dir: said("HOSTS_DIR").map(PathBuf::from),
            report: said("REPORT").map(PathBuf::from),
        })
    }

    /// Returns additional configuration for each node.
    pub(crate) fn drop_in(&self) -> String {
        let hosts = self.hosts_dir.as_ref();
        hosts.map_or_else(String::new, |dir| {
            format!("[images]\nhosts_dirs = [{:?}]", dir.display().to_string())
        })
    }
}

fn gates(named: Vec<String>) -> anyhow::Result<Vec<String>> {
    for gate in &named {
        if !matches!(gate.split_once('='), Some((name, "true" | "false")) if !name.is_empty()) {
            bail!("GATES has {gate:?}; each is NAME=true or NAME=false");
        }
    }
    Ok(named)
}

/// Returns the named backends, or all that can run here if none is named.
fn backends(
    named: Vec<String>,
    handlers: Vec<String>,
    can_docker: Result<(), String>,
) -> anyhow::Result<Vec<Backend>> {
    let every = named.is_empty();
    let named = if every {
        vec!["native".to_owned(), "docker".to_owned()]
    } else {
        named
    };
    let mut backends = Vec::new();
    for name in named {
        match name.as_str() {
            "native" => backends.extend(runtimes(&handlers)?.into_iter().map(Backend::Native)),
            "docker" => match &can_docker {
                Ok(()) => backends.push(Backend::Docker),
                Err(reason) if every => eprintln!("without docker: this machine {reason}"),
                Err(reason) => bail!("no engine can be started: this machine {reason}"),
            },
            other => bail!("BACKENDS has {other:?}; there are native and docker"),
        }
    }
    Ok(backends)
}

fn runtimes(named: &[String]) -> anyhow::Result<Vec<Handler>> {
    if named.is_empty() {
        let known = ["orlop-run", "runc", "crun", "runsc"];
        return Ok(known
            .into_iter()
            .filter_map(|name| runtime(name).ok())
            .collect());
    }
    named.iter().map(|name| runtime(name)).collect()
}

fn runtime(name: &str) -> anyhow::Result<Handler> {
    let path = if name == "orlop-run" {
        orlop_testkit::node::run_binary()
    } else {
        machine::program(name)
            .map_err(|reason| anyhow::anyhow!("HANDLERS has {name}, but this machine {reason}"))?
    };
    let file = path.file_name().unwrap_or_default();
    Ok(Handler {
        name: file.to_string_lossy().into_owned(),
        path: path.display().to_string(),
    })
}

fn executable(variable: &str, path: &str) -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = PathBuf::from(path);
    let meta = path
        .metadata()
        .with_context(|| format!("{variable} names {}", path.display()))?;
    if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 {
        bail!("{variable} names {}, which is no program", path.display());
    }
    Ok(path)
}

fn words(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(variables: &[(&str, &str)]) -> String {
        let said = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match Asked::of(&said) {
            Ok(_) => panic!("taken: {variables:?}"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(refusal(&[]).contains("CRITEST=/path/to/critest"));
        assert!(refusal(&[("KUBELET", "/bin/sh")]).contains("KUBECTL=…"));
        let gate = refusal(&[
            ("KUBELET", "/bin/sh"),
            ("KUBECTL", "/bin/sh"),
            ("GATES", "EventedPLEG"),
        ]);
        assert!(gate.contains("GATES has \"EventedPLEG\""), "{gate}");
        let absent = refusal(&[("CRITEST", "/nonexistent/critest")]);
        orlop_testkit::assert_contains!(absent, "CRITEST names /nonexistent/critest");
        let text = refusal(&[("CRITEST", "/etc/passwd")]);
        assert!(text.contains("which is no program"), "{text}");
        let other = refusal(&[("CRITEST", "/bin/sh"), ("BACKENDS", "podman")]);
        assert!(other.contains("there are native and docker"), "{other}");
        let runtime = refusal(&[
            ("CRITEST", "/bin/sh"),
            ("BACKENDS", "native"),
            ("HANDLERS", "no-such-runtime"),
        ]);
        orlop_testkit::assert_contains!(runtime, "HANDLERS has no-such-runtime");
    }
}
