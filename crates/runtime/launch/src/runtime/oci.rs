//! A runtime with the command line of runc: runc, crun, youki, runsc.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_keeper_protocol::{CONSOLE_SOCKET, RuntimeCall, monotonic_ns};

use crate::create_container::CreateContainer;
use crate::millis::millis;

/// The FIFO in a container's state directory in which runc's init waits (`libcontainer`, `execFifoFilename`).
const START_FIFO: &str = "exec.fifo";

/// A configured runtime with the command line of runc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciRuntime {
    /// Name in the configuration, for messages.
    pub name: String,
    /// Path of the program.
    pub program: PathBuf,
    /// Global arguments before the command.
    pub args: Vec<OsString>,
    /// State directory (`--root`), on a tmpfs.
    pub root: PathBuf,
    /// Whether it creates cgroups through systemd (`--systemd-cgroup`).
    pub systemd_cgroup: bool,
    /// Whether it must not use `pivot_root` (`--no-pivot`), as on an initial ramdisk.
    pub no_pivot: bool,
    /// Whether it stores a container's state as runc does: in a directory named after the container below
    /// [`root`](Self::root), with a FIFO in which the created process waits.
    pub state_as_runc: bool,
    /// Whether it is a static program that re-executes a protected copy of itself, unless it is executed from a
    /// read-only mount.
    pub protects_itself: bool,
    /// Whether its `create` takes mounts as descriptors (`--given-mounts`).
    pub attaches_mounts: bool,
}

impl OciRuntime {
    /// Returns a runtime without options.
    pub fn new(
        name: impl Into<String>,
        program: impl Into<PathBuf>,
        root: impl Into<PathBuf>,
    ) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            root: root.into(),
            systemd_cgroup: false,
            no_pivot: false,
            state_as_runc: false,
            protects_itself: false,
            attaches_mounts: false,
        }
    }

    /// Path of a container's state, if known.
    pub fn state_of(&self, id: &str) -> Option<PathBuf> {
        let names_a_child = !id.is_empty() && !id.starts_with('.') && !id.contains('/');
        (self.state_as_runc && names_a_child).then(|| self.root.join(id))
    }

    /// Path of the FIFO through which a created container is started, if known.
    pub(crate) fn start_fifo(&self, id: &str) -> PathBuf {
        let state = self.state_of(id);
        state.map_or_else(PathBuf::new, |state| state.join(START_FIFO))
    }

    /// Whether it gets the mounts of this container as descriptors.
    pub(crate) fn attaches(&self, container: &CreateContainer) -> bool {
        self.attaches_mounts && !container.own_users && container.restore.is_none()
    }

    pub(crate) fn create_call(
        &self,
        container: &CreateContainer,
        pid_file: &Path,
        limit: Duration,
    ) -> RuntimeCall {
        let (id, bundle) = (&container.id, &container.bundle);
        let action = container.action();
        let mut command: Vec<&OsStr> = vec![action.as_ref(), "--bundle".as_ref()];
        command.extend([bundle.as_os_str(), "--pid-file".as_ref(), pid_file.as_ref()]);
        if let Some(restore) = &container.restore {
            command.push("--detach".as_ref());
            command.extend(["--image-path".as_ref(), restore.image_path.as_os_str()]);
            command.extend(["--work-path".as_ref(), restore.work_path.as_os_str()]);
            for (wanted, flag) in [
                (restore.tcp_established, "--tcp-established"),
                (restore.file_locks, "--file-locks"),
            ] {
                if wanted {
                    command.push(flag.as_ref());
                }
            }
        }
        if container.tty {
            command.extend::<[&OsStr; 2]>(["--console-socket".as_ref(), CONSOLE_SOCKET.as_ref()]);
        }
        if self.no_pivot {
            command.push("--no-pivot".as_ref());
        }
        if self.attaches(container) {
            command.push("--given-mounts".as_ref());
        }
        command.push(id.as_ref());
        self.call(id, bundle, action, &command, limit)
    }

    pub(crate) fn start_call(&self, id: &str, bundle: &Path, limit: Duration) -> RuntimeCall {
        self.call(id, bundle, "start", &["start".as_ref(), id.as_ref()], limit)
    }

    pub(crate) fn kill_call(
        &self,
        id: &str,
        bundle: &Path,
        signal: u32,
        all: bool,
        limit: Duration,
    ) -> RuntimeCall {
        let signal = signal.to_string();
        let mut command: Vec<&OsStr> = vec!["kill".as_ref()];
        if all {
            command.push("--all".as_ref());
        }
        command.extend::<[&OsStr; 2]>([id.as_ref(), signal.as_ref()]);
        self.call(id, bundle, "kill", &command, limit)
    }

    pub(crate) fn delete_call(&self, id: &str, bundle: &Path, limit: Duration) -> RuntimeCall {
        let command: [&OsStr; 3] = ["delete".as_ref(), "--force".as_ref(), id.as_ref()];
        self.call(id, bundle, "delete", &command, limit)
    }

    pub(crate) fn exec_call(
        &self,
        id: &str,
        dir: &Path,
        pid_file: &Path,
        tty: bool,
        limit: Duration,
    ) -> RuntimeCall {
        let process = dir.join("process.json");
        let mut command: Vec<&OsStr> = vec!["exec".as_ref(), "--detach".as_ref()];
        command.extend(["--process".as_ref(), process.as_os_str()]);
        command.extend(["--pid-file".as_ref(), pid_file.as_os_str()]);
        if tty {
            command.extend::<[&OsStr; 2]>(["--console-socket".as_ref(), CONSOLE_SOCKET.as_ref()]);
        }
        command.push(id.as_ref());
        self.call(id, dir, "exec", &command, limit)
    }

    /// Builds the complete command line.
    pub(crate) fn argv(&self, log: &Path, command: &[&OsStr]) -> Vec<OsString> {
        let mut argv = vec![
            self.program.clone().into_os_string(),
            "--root".into(),
            self.root.clone().into_os_string(),
            "--log".into(),
            log.as_os_str().to_owned(),
            "--log-format".into(),
            "json".into(),
        ];
        if self.systemd_cgroup {
            argv.push("--systemd-cgroup".into());
        }
        argv.extend(self.args.iter().cloned());
        argv.extend(command.iter().map(|&argument| argument.to_owned()));
        argv
    }

    fn call(
        &self,
        id: &str,
        dir: &Path,
        action: &str,
        command: &[&OsStr],
        limit: Duration,
    ) -> RuntimeCall {
        // The bundle of a container that is to be deleted may be gone.
        let dir = if dir.is_dir() { dir } else { Path::new("/") };
        let log = if dir == Path::new("/") {
            self.root.join(format!("{id}.{action}.log"))
        } else {
            dir.join(format!("{action}.log"))
        };
        RuntimeCall {
            argv: self.argv(&log, command),
            cwd: dir.to_owned(),
            log,
            timeout_ms: millis(limit),
            protected: self.protects_itself,
            until_ns: monotonic_ns().saturating_add(u64::from(millis(limit)) * 1_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{CreateContainer, OciRuntime};
    use crate::create_container::Restore;

    #[test]
    fn options_stand_where_runc_wants_them() {
        let dir = std::env::temp_dir();
        let mut runtime = OciRuntime::new("runc", "/usr/bin/runc", "/run/x");
        runtime.args = vec!["--debug".into()];
        runtime.systemd_cgroup = true;
        let mut container = CreateContainer {
            id: "c1".to_owned(),
            bundle: dir.clone(),
            tty: true,
            ..CreateContainer::default()
        };
        let pid_file = Path::new("/b/pid");
        let call = runtime.create_call(&container, pid_file, Duration::from_secs(5));
        let words: Vec<_> = call
            .argv
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        let log = call.log.to_string_lossy();
        let bundle = dir.to_string_lossy();
        #[rustfmt::skip]
        let expected = [
            "/usr/bin/runc", "--root", "/run/x", "--log", &log, "--log-format", "json",
            "--systemd-cgroup", "--debug",
            "create", "--bundle", &bundle, "--pid-file", "/b/pid",
            "--console-socket", "@console-socket@", "c1",
        ];
        assert_eq!(words, expected);
        assert_eq!(call.timeout_ms, 5000);

        container.restore = Some(Restore {
            image_path: "/i".into(),
            work_path: "/w".into(),
            tcp_established: false,
            file_locks: true,
        });
        let call = runtime.create_call(&container, pid_file, Duration::from_secs(5));
        let words = call.argv[9..].iter().map(|word| word.to_string_lossy());
        #[rustfmt::skip]
        let expected = [
            "restore", "--bundle", &bundle, "--pid-file", "/b/pid", "--detach",
            "--image-path", "/i", "--work-path", "/w", "--file-locks",
            "--console-socket", "@console-socket@", "c1",
        ];
        assert_eq!(words.collect::<Vec<_>>(), expected);
    }
}
