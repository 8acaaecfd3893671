//! A mount namespace with cgroup version 1 only.
//!
//! crun refuses a node with version 2 beside version 1, but works if version 2 is not mounted. The node under test then
//! runs in a mount namespace without it, so that the machine's mounts are unchanged. Mounts in the test's directories
//! are shared with this namespace.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::machine;
use crate::process::Process;
use crate::scratch::Scratch;

/// The namespace. It ends with the process that holds it, which ends on drop.
#[derive(Debug)]
pub(super) struct V1Only {
    holder: Process,
}

impl V1Only {
    /// Creates the namespace if `runtime` needs it on this machine.
    pub(super) fn for_runtime(runtime: &str, scratch: &Scratch) -> Option<Self> {
        let is_crun = Path::new(runtime).file_name() == Some(OsStr::new("crun"));
        let version_2 = machine::v2_beside_v1().filter(|_| is_crun)?;
        let mut directories = vec![scratch.dir(), scratch.run()];
        directories.dedup();
        for directory in directories {
            share(directory);
        }
        // An unmount propagates to the peers of the parent mount, so it must have none here.
        let script = "above=$(findmnt --noheadings --output TARGET --target \"${0%/*}\") && \
            mount --make-private \"$above\" && umount --lazy \"$0\" && exec sleep infinity";
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "unchanged", "sh", "-c", script])
            .arg(&version_2)
            // The working directory marks the process as the test's.
            .current_dir(scratch.run());
        let name = "the holder of a mount namespace";
        let mut holder = Process::spawn(name, &mut command, &scratch.path("holder.log"));
        let own = format!("/proc/{}", holder.pid());
        holder.wait_until(Duration::from_secs(10), "unmount version 2", || {
            let read = |file: &str| std::fs::read_to_string(format!("{own}/{file}"));
            let mounted = read("mountinfo").unwrap_or_default();
            read("comm").is_ok_and(|name| name.trim() == "sleep")
                && !mounted.contains(" - cgroup2 ")
        });
        Some(Self { holder })
    }

    /// Returns the process that holds it.
    pub(super) fn pid(&self) -> u32 {
        self.holder.pid()
    }

    /// Wraps a command to run in the namespace with the same process ID.
    pub(super) fn enter(&self, command: &Command) -> Command {
        let mut entering = Command::new("nsenter");
        entering
            .arg(format!("--mount=/proc/{}/ns/mnt", self.pid()))
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => entering.env(name, value),
                None => entering.env_remove(name),
            };
        }
        entering
    }
}

/// Makes a directory a shared mount. It is removed with the scratch directory.
fn share(directory: &Path) {
    for change in ["--bind", "--make-shared"] {
        let mut command = Command::new("mount");
        command.arg(change).arg(directory);
        if change == "--bind" {
            command.arg(directory);
        }
        let status = command.status().expect("run mount");
        assert!(status.success(), "mount {change} {}", directory.display());
    }
}
