//! The cgroup of a process.

use std::fs;
use std::path::{Path, PathBuf};

use orlop_fs::{Membership, Mount, Mountinfo};

/// Depth limit of the search.
const MAX_DEPTH: usize = 32;

/// A mounted cgroup hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    mountpoint: PathBuf,
    /// Controllers of version 1; empty for version 2.
    controllers: Vec<String>,
}

/// Cgroup of a process, in the hierarchy that identifies its container best.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cgroup {
    /// Path as the kernel reports it.
    pub(crate) path: String,
    directory: PathBuf,
}

/// Returns the hierarchies mounted on this machine.
pub(crate) fn hierarchies() -> Vec<Hierarchy> {
    Mountinfo::own().map_or_else(|_| Vec::new(), |table| hierarchies_in(&table))
}

/// Returns the hierarchies that are mounted from their root.
fn hierarchies_in(table: &Mountinfo) -> Vec<Hierarchy> {
    let whole = table
        .mounts()
        .filter(|mount| mount.root() == Path::new("/"));
    let hierarchy = |mount: Mount<'_>| {
        let controllers = match mount.kind() {
            "cgroup2" => Vec::new(),
            "cgroup" => mount.words().map(str::to_owned).collect(),
            _ => return None,
        };
        Some(Hierarchy {
            mountpoint: mount.point(),
            controllers,
        })
    };
    whole.filter_map(hierarchy).collect()
}

impl Cgroup {
    /// Returns the cgroup of a process. In version 1 it is that of the memory controller, which runtimes always set.
    pub(crate) fn of(pid: u32, mounted: &[Hierarchy]) -> Option<Self> {
        Self::find(&Membership::of(pid).ok()?, mounted)
    }

    fn find(membership: &Membership, mounted: &[Hierarchy]) -> Option<Self> {
        for wanted in ["memory", "pids", "cpu", ""] {
            let Some(path) = membership.path(wanted) else {
                continue;
            };
            let path = path.to_owned();
            let hierarchy = mounted.iter().find(|hierarchy| {
                if wanted.is_empty() {
                    hierarchy.controllers.is_empty()
                } else {
                    hierarchy.controllers.iter().any(|one| one == wanted)
                }
            });
            if let Some(hierarchy) = hierarchy
                && (path != "/" || wanted.is_empty())
            {
                let directory = hierarchy.mountpoint.join(path.trim_start_matches('/'));
                return Some(Self { path, directory });
            }
        }
        None
    }

    /// Returns the processes in it and below it.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let mut pids = Vec::new();
        collect(&self.directory, 0, &mut pids);
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

fn collect(directory: &Path, depth: usize, pids: &mut Vec<u32>) {
    let text = orlop_fs::read_kernel_text(directory.join("cgroup.procs")).unwrap_or_default();
    pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if depth < MAX_DEPTH && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), depth + 1, pids);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_is_found_on_both_versions() {
        let table = "33 25 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                     30 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n\
                     30 25 0:27 /docker /x rw - cgroup2 c rw\n";
        let mounted = hierarchies_in(&Mountinfo::from_text(table));
        assert_eq!(mounted.len(), 2, "a part of a hierarchy says nothing");
        let found = |text: &str| {
            let cgroup = Cgroup::find(&Membership::from_text(text), &mounted).unwrap();
            (cgroup.path, cgroup.directory)
        };
        assert_eq!(
            found("5:cpu,cpuacct:/c\n4:memory:/kubepods/a\n0::/\n"),
            (
                "/kubepods/a".to_owned(),
                "/sys/fs/cgroup/memory/kubepods/a".into()
            )
        );
        assert_eq!(
            found("0::/kubepods.slice/a.scope\n").1,
            Path::new("/sys/fs/cgroup/unified/kubepods.slice/a.scope")
        );
    }
}
