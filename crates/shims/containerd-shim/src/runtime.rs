//! The OCI runtime and its command lines. They match those of runc's shim, with the same state directory, so that
//! `runc list` shows the containers as before.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use orlop_keeper_protocol::{CONSOLE_SOCKET, RuntimeCall, monotonic_ns};
use serde::{Deserialize, Serialize};

use crate::error::{Result, failed, unknown};
use crate::options::Options;

/// The default state directory of runc's shim.
const ROOT: &str = "/run/containerd/runc";
/// Runtimes to look for if none is configured: first the default of containerd's own shim.
const USUAL: [&str; 2] = ["runc", "crun"];
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The FIFO in a container's state directory in which runc's init waits.
const START_FIFO: &str = "exec.fifo";
/// Timeout of calls that create or end processes.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);
/// How long a killed runtime may take to exit.
const ORPHANS: Duration = Duration::from_secs(5);

/// A runtime with runc's command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Runtime {
    program: PathBuf,
    root: PathBuf,
    systemd_cgroup: bool,
    no_pivot: bool,
    no_new_keyring: bool,
}

impl Runtime {
    pub(crate) fn of(options: &Options, namespace: &str) -> Result<Self> {
        let root = if options.root.as_os_str().is_empty() {
            Path::new(ROOT)
        } else {
            &options.root
        };
        Ok(Self {
            program: program(&options.binary_name)?,
            root: root.join(namespace),
            systemd_cgroup: options.systemd_cgroup,
            no_pivot: options.no_pivot_root,
            no_new_keyring: options.no_new_keyring,
        })
    }

    /// Returns the FIFO that starts a created container, for runc.
    pub(crate) fn start_fifo(&self, id: &str) -> PathBuf {
        let is_runc = self.program.file_name().is_some_and(|name| name == "runc");
        if is_runc {
            self.root.join(id).join(START_FIFO)
        } else {
            PathBuf::new()
        }
    }

    pub(crate) fn create(
        &self,
        id: &str,
        bundle: &Path,
        pid_file: &Path,
        tty: bool,
    ) -> RuntimeCall {
        self.making("create", id, bundle, pid_file, tty, &[])
    }

    /// Restores a container from a checkpoint; it then runs.
    pub(crate) fn restore(
        &self,
        id: &str,
        bundle: &Path,
        pid_file: &Path,
        tty: bool,
        [image, work]: [&Path; 2],
    ) -> RuntimeCall {
        let mut words: Vec<OsString> = vec!["--detach".into(), "--image-path".into(), image.into()];
        if !work.as_os_str().is_empty() {
            words.extend(["--work-path".into(), work.into()]);
        }
        self.making("restore", id, bundle, pid_file, tty, &words)
    }

    fn making(
        &self,
        action: &str,
        id: &str,
        bundle: &Path,
        pid_file: &Path,
        tty: bool,
        more: &[OsString],
    ) -> RuntimeCall {
        let mut words: Vec<OsString> = vec![action.into(), "--bundle".into(), bundle.into()];
        words.extend(["--pid-file".into(), pid_file.into()]);
        words.extend_from_slice(more);
        if tty {
            words.extend(["--console-socket".into(), CONSOLE_SOCKET.into()]);
        }
        for (wanted, flag) in [
            (self.no_pivot, "--no-pivot"),
            (self.no_new_keyring, "--no-new-keyring"),
        ] {
            if wanted {
                words.push(flag.into());
            }
        }
        words.push(id.into());
        self.call(bundle, action, &words)
    }

    pub(crate) fn start(&self, id: &str, bundle: &Path) -> RuntimeCall {
        self.call(bundle, "start", &["start".into(), id.into()])
    }

    /// Signals all processes of a container.
    pub(crate) fn kill_all(&self, id: &str, bundle: &Path, signal: u32) -> RuntimeCall {
        let signal = signal.to_string();
        let words = ["kill".into(), "--all".into(), id.into(), signal.into()];
        self.call(bundle, "kill", &words)
    }

    pub(crate) fn delete(&self, id: &str, bundle: &Path) -> RuntimeCall {
        let words = ["delete".into(), "--force".into(), id.into()];
        self.call(bundle, "delete", &words)
    }

    /// Runs a command whose description and pid file are in `dir`.
    pub(crate) fn exec(&self, id: &str, dir: &Path, tty: bool) -> RuntimeCall {
        let mut words: Vec<OsString> = vec!["exec".into(), "--detach".into(), "--process".into()];
        words.push(dir.join("process.json").into());
        words.extend(["--pid-file".into(), dir.join("pid").into()]);
        if tty {
            words.extend(["--console-socket".into(), CONSOLE_SOCKET.into()]);
        }
        words.push(id.into());
        self.call(dir, "exec", &words)
    }

    /// Removes the rest of a container whose creation or deletion was interrupted.
    pub(crate) fn delete_leftover(&self, id: &str) {
        // First, because a runtime that has just started has no state yet but may still create it.
        let deleted = self.end_orphans(id).and_then(|()| {
            if !self.root.join(id).exists() {
                return Ok(());
            }
            self.force_delete(id)
        });
        if let Err(status) = deleted {
            crate::log::log(&format!("deleting container {id}: {}", status.message));
        }
    }

    /// Deletes a container whose keeper is dead.
    pub(crate) fn delete_directly(&self, id: &str) -> Result<()> {
        self.end_orphans(id)?;
        self.force_delete(id)
    }

    /// Ends the runtime processes that work on a container. They may briefly outlive the keeper that started them and
    /// still create files and cgroups.
    fn end_orphans(&self, id: &str) -> Result<()> {
        orlop_process::orphans::end(&self.root, id, ORPHANS)
            .map_err(failed("stopping the runtime processes of", Path::new(id)))
    }

    fn force_delete(&self, id: &str) -> Result<()> {
        let words = ["delete", "--force", id].map(OsStr::new);
        self.direct(&words).map(drop)
    }

    /// Runs a runtime command that creates no process and needs no keeper.
    pub(crate) fn direct(&self, words: &[&OsStr]) -> Result<Vec<u8>> {
        let words: Vec<OsString> = words.iter().map(|word| word.to_os_string()).collect();
        let argv = self.argv(Path::new("/dev/stderr"), &words);
        let mut command = Command::new(&self.program);
        command.args(&argv[1..]).env_clear().env("PATH", PATH);
        crate::program::run(command, LIMIT)
    }

    fn call(&self, dir: &Path, action: &str, words: &[OsString]) -> RuntimeCall {
        let log = dir.join(format!("{action}.log"));
        RuntimeCall {
            argv: self.argv(&log, words),
            cwd: dir.to_owned(),
            log,
            timeout_ms: LIMIT.as_millis() as u32,
            protected: false,
            until_ns: monotonic_ns().saturating_add(LIMIT.as_nanos() as u64),
        }
    }

    fn argv(&self, log: &Path, words: &[OsString]) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec![self.program.clone().into(), "--root".into()];
        argv.extend([self.root.clone().into(), "--log".into(), log.into()]);
        argv.extend(["--log-format".into(), "json".into()]);
        if self.systemd_cgroup {
            argv.push("--systemd-cgroup".into());
        }
        argv.extend_from_slice(words);
        argv
    }
}

/// Returns the configured program, or the first default one that exists.
pub(crate) fn program(named: &str) -> Result<PathBuf> {
    if named.contains('/') {
        return Ok(named.into());
    }
    let wanted: &[&str] = if named.is_empty() { &USUAL } else { &[named] };
    let dirs = || PATH.split(':').map(Path::new);
    let places = wanted
        .iter()
        .flat_map(|name| dirs().map(move |dir| dir.join(name)));
    places
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| {
            unknown(format!(
                "cannot find the OCI runtime {} in {PATH}; install it, or set BinaryName in \
                 containerd's configuration of the runtime handler",
                wanted.join(" or ")
            ))
        })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Runtime;

    #[test]
    fn lines_are_those_of_runcs_shim() {
        let runtime = Runtime {
            program: "/usr/bin/runc".into(),
            root: "/run/containerd/runc/k8s.io".into(),
            systemd_cgroup: true,
            no_pivot: true,
            no_new_keyring: false,
        };
        let call = runtime.create("c1", Path::new("/b"), Path::new("/b/init.pid"), true);
        let line: Vec<_> = call
            .argv
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        assert_eq!(
            line.join(" "),
            "/usr/bin/runc --root /run/containerd/runc/k8s.io --log /b/create.log --log-format json \
             --systemd-cgroup create --bundle /b --pid-file /b/init.pid \
             --console-socket @console-socket@ --no-pivot c1"
        );
        let fifo = runtime.start_fifo("c1");
        assert_eq!(
            fifo.to_str(),
            Some("/run/containerd/runc/k8s.io/c1/exec.fifo")
        );
    }
}
