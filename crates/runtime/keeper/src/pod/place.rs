//! The cgroups, OOM score, network pin and shared memory of the keeper's pod.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use orlop_keeper_protocol::{OpenFiles, ShmMount};
use rustix::fs::OFlags;
use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Moves this single-threaded process into a cgroup.
///
/// With cgroup v1, a thread that moves itself through `tasks` avoids the grace period of several milliseconds that
/// `cgroup.procs` costs.
pub(crate) fn enter_cgroup(dir: &Path) -> Result<(), String> {
    let tasks = dir.join("tasks");
    let file = if tasks.exists() {
        tasks
    } else {
        dir.join("cgroup.procs")
    };
    OpenOptions::new()
        .write(true)
        .open(&file)
        .and_then(|mut file| file.write_all(b"0"))
        .map_err(|error| format!("cannot join cgroup {}: {error}", dir.display()))
}

/// Sets the OOM score adjustment; the kernel refuses it without `CAP_SYS_RESOURCE`.
pub(crate) fn set_oom_score(score: i32) -> Result<(), String> {
    fs::write("/proc/self/oom_score_adj", score.to_string())
        .map_err(|error| format!("cannot set oom_score_adj to {score}: {error}"))
}

/// Sets the limit of open files for this process and its descendants.
pub(crate) fn set_open_files(limits: &OpenFiles) -> Result<(), String> {
    let number = |limit: u64| (limit != u64::MAX).then_some(limit);
    let limit = Rlimit {
        current: number(limits.current),
        maximum: number(limits.maximum),
    };
    setrlimit(Resource::Nofile, limit)
        .map_err(|error| format!("cannot limit open files to {}: {error}", limits.current))
}

/// Bind-mounts the network namespace on a path.
pub(crate) fn pin_network(pin: &Path) -> Result<(), String> {
    let failure = |error| {
        format!(
            "cannot bind-mount the network namespace on {}: {error}",
            pin.display()
        )
    };
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o444)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(pin)
        .map_err(|error| failure(error.to_string()))?;
    mount_bind("/proc/self/ns/net", pin).map_err(|error| failure(error.to_string()))
}

/// Mounts the file system for `/dev/shm`.
pub(crate) fn mount_shm(shm: &ShmMount, at: &Path) -> Result<(), String> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let options = std::ffi::CString::new(options(shm)).map_err(|error| error.to_string())?;
    mount("shm", at, "tmpfs", flags, Some(options.as_c_str())).map_err(|error| {
        format!(
            "cannot mount shared memory on {}: {error}",
            shm.path.display()
        )
    })
}

fn options(ShmMount { size, label, .. }: &ShmMount) -> String {
    if label.is_empty() {
        return format!("mode=1777,size={size}");
    }
    // An SELinux label may contain commas but no quotes.
    format!("mode=1777,size={size},context=\"{label}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commas_of_a_label_end_no_option() {
        let mut shm = ShmMount {
            size: 4096,
            ..ShmMount::default()
        };
        assert_eq!(options(&shm), "mode=1777,size=4096");
        "u:r:t:s0:c1,c2".clone_into(&mut shm.label);
        let labelled = "mode=1777,size=4096,context=\"u:r:t:s0:c1,c2\"";
        assert_eq!(options(&shm), labelled);
    }
}
