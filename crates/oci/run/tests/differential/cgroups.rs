//! What the machine's control groups say of a container.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MOUNT: &str = "/sys/fs/cgroup";
/// The files by which a runtime sets limits, of both versions.
const LIMITS: &[&str] = &[
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.soft_limit_in_bytes",
    "memory.swappiness",
    "memory.oom_control",
    "memory.use_hierarchy",
    "memory.max",
    "memory.low",
    "memory.high",
    "memory.swap.max",
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.cfs_burst_us",
    "cpu.idle",
    "cpu.weight",
    "cpu.max",
    "cpuset.cpus",
    "cpuset.mems",
    "pids.max",
    "devices.list",
    "blkio.bfq.weight",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
    "io.max",
    "io.bfq.weight",
    "hugetlb.2MB.limit_in_bytes",
    "hugetlb.2MB.max",
    "net_cls.classid",
    "net_prio.ifpriomap",
    "rdma.max",
    "freezer.state",
    "cgroup.freeze",
    "misc.max",
];

/// The groups that a process is in, and their limits.
pub(crate) fn of(pid: i32) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let table = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    for line in table.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        found.insert(format!("member of {controllers}"), path.to_owned());
        let Some(hierarchy) = hierarchy(controllers) else {
            continue;
        };
        let directory = hierarchy.join(path.trim_start_matches('/'));
        for name in LIMITS {
            // Of the unified hierarchy beside version 1, nobody sets anything.
            if let Ok(text) = fs::read_to_string(directory.join(name)) {
                // In whatever order it was written.
                let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
                lines.sort_unstable();
                found.insert((*name).to_owned(), lines.join(" | "));
            }
        }
    }
    found
}

fn hierarchy(controllers: &str) -> Option<PathBuf> {
    if controllers.is_empty() {
        let unified = Path::new(MOUNT).join("cgroup.controllers").exists();
        return unified.then(|| PathBuf::from(MOUNT));
    }
    let first = controllers.split(',').next().unwrap_or_default();
    [controllers, first]
        .map(|name| Path::new(MOUNT).join(name.trim_start_matches("name=")))
        .into_iter()
        .find(|path| path.is_dir())
}

/// Removes what bears the name, in every hierarchy.
pub(crate) fn remove(name: &str) {
    let hierarchies = fs::read_dir(MOUNT).into_iter().flatten().flatten();
    let hierarchies = hierarchies.map(|entry| entry.path());
    for hierarchy in hierarchies.chain([PathBuf::from(MOUNT)]) {
        remove_below(&hierarchy.join(name));
    }
}

fn remove_below(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

/// Which groups of the name are left.
pub(crate) fn left(name: &str) -> Vec<String> {
    let hierarchies = fs::read_dir(MOUNT).into_iter().flatten().flatten();
    let groups = hierarchies.map(|entry| entry.path().join(name));
    let left = groups.filter(|group| group.is_dir());
    left.map(|group| group.to_string_lossy().into_owned())
        .collect()
}
