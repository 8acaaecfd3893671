//! The files of the cgroups of pods, in both versions.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_disk::{Mountinfo, Step, Walk};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, open, unlinkat};
use rustix::io::Errno;

use super::CgroupError;
use super::limits::{Limits, PERIOD};
use super::usage::{self, CgroupUsage};

/// `CGROUP2_SUPER_MAGIC`.
const UNIFIED: u64 = 0x6367_7270;
const TOP: &str = "/sys/fs/cgroup";
/// What pods are limited in.
const CONTROLLERS: [&str; 5] = ["cpu", "memory", "pids", "cpuset", "hugetlb"];

/// Where the kernel's hierarchies are.
#[derive(Debug, Clone)]
pub(super) enum Layout {
    /// One for all controllers.
    Unified(PathBuf),
    /// Several, each with its controllers.
    Split(Vec<(Vec<String>, PathBuf)>),
}

impl Layout {
    pub(super) fn of_kernel() -> Result<Self, CgroupError> {
        let top = rustix::fs::statfs(TOP)
            .map_err(|e| CgroupError::None(format!("nothing is mounted at {TOP}: {e}")))?;
        if top.f_type as u64 == UNIFIED {
            return Ok(Self::Unified(TOP.into()));
        }
        let table = Mountinfo::own().map_err(|e| CgroupError::None(e.to_string()))?;
        let mut hierarchies: Vec<(Vec<String>, PathBuf)> = Vec::new();
        for mount in table.mounts() {
            match mount.kind() {
                // Beside the others it limits nothing; runtimes make cgroups in it all the same.
                "cgroup2" => hierarchies.push((Vec::new(), mount.point())),
                "cgroup" => {
                    let words = mount.words();
                    let controllers: Vec<_> = words
                        .filter(|word| !matches!(*word, "rw" | "ro" | "xattr"))
                        .map(str::to_owned)
                        .collect();
                    if !hierarchies.iter().any(|(known, _)| *known == controllers) {
                        hierarchies.push((controllers, mount.point()));
                    }
                }
                _ => {}
            }
        }
        if hierarchies.is_empty() {
            return Err(CgroupError::None("no hierarchy is mounted".to_owned()));
        }
        Ok(Self::Split(hierarchies))
    }

    pub(super) fn is_unified(&self) -> bool {
        matches!(self, Self::Unified(_))
    }

    /// Makes a cgroup and gives it limits.
    pub(super) fn apply(&self, path: &str, limits: &Limits) -> Result<(), CgroupError> {
        match self {
            Self::Unified(top) => {
                let dir = beneath(top, path);
                make_unified(top, path)?;
                let quota = limits
                    .cpu_quota
                    .map_or_else(|| "max".to_owned(), |quota| quota.to_string());
                let or_max = |n: Option<String>| n.unwrap_or_else(|| "max".to_owned());
                write(&dir, "cpu.weight", &limits.weight().to_string())?;
                write(&dir, "cpu.max", &format!("{quota} {PERIOD}"))?;
                write(
                    &dir,
                    "memory.max",
                    &or_max(limits.memory.map(|n| n.to_string())),
                )?;
                write(
                    &dir,
                    "pids.max",
                    &or_max(limits.pids.map(|n| n.to_string())),
                )?;
                if let Some(kept) = limits.protection {
                    write(&dir, "memory.min", &kept.min.to_string())?;
                    write(&dir, "memory.low", &kept.low.to_string())?;
                }
                Ok(())
            }
            Self::Split(hierarchies) => {
                for (controllers, top) in hierarchies {
                    let has = |name: &str| controllers.iter().any(|c| c == name);
                    let dir = beneath(top, path);
                    if !(has("cpu") || has("memory") || has("pids")) {
                        continue;
                    }
                    make(&dir)?;
                    if has("cpu") {
                        write(&dir, "cpu.shares", &limits.cpu_shares.to_string())?;
                        let quota = limits.cpu_quota.unwrap_or(-1);
                        if quota > 0 {
                            write(&dir, "cpu.cfs_period_us", &PERIOD.to_string())?;
                        }
                        write(&dir, "cpu.cfs_quota_us", &quota.to_string())?;
                    }
                    if has("memory") {
                        let limit = limits.memory.unwrap_or(-1);
                        write(&dir, "memory.limit_in_bytes", &limit.to_string())?;
                    }
                    if has("pids") {
                        let pids = limits.pids.map(|n| n.to_string());
                        write(&dir, "pids.max", &pids.unwrap_or_else(|| "max".to_owned()))?;
                    }
                }
                Ok(())
            }
        }
    }

    /// What is used in a cgroup.
    pub(super) fn usage(&self, path: &str) -> CgroupUsage {
        match self {
            Self::Unified(top) => usage::unified(&beneath(top, path)),
            Self::Split(hierarchies) => {
                let of = |name: &str| {
                    let has = |(list, _): &&(Vec<String>, PathBuf)| list.iter().any(|c| c == name);
                    let found = hierarchies.iter().find(has);
                    found.map(|(_, top)| beneath(top, path))
                };
                usage::split(of("cpuacct").as_deref(), of("memory").as_deref())
            }
        }
    }

    /// The names of the cgroups right beneath one, in whichever hierarchy.
    pub(super) fn children(&self, path: &str) -> BTreeSet<String> {
        let entries = self.tops().into_iter().flat_map(|top| {
            let entries = fs::read_dir(beneath(top, path));
            entries.into_iter().flatten().flatten()
        });
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    fn tops(&self) -> Vec<&Path> {
        match self {
            Self::Unified(top) => vec![top],
            Self::Split(hierarchies) => hierarchies.iter().map(|(_, top)| top.as_path()).collect(),
        }
    }

    /// Removes a cgroup and all beneath it, in each hierarchy. Processes in it are on their way
    /// out by now and get a moment; what is left then stays, and is reported.
    pub(super) fn remove(&self, path: &str) -> Result<(), CgroupError> {
        let mut worst = Ok(());
        for top in self.tops() {
            let dir = beneath(top, path);
            for wait in [0, 5, 20, 100, 400] {
                std::thread::sleep(Duration::from_millis(wait));
                worst = remove_tree(&dir).map_err(|source| CgroupError::Io {
                    doing: "removing",
                    path: dir.display().to_string(),
                    source,
                });
                if worst.is_ok() {
                    break;
                }
            }
            if worst.is_err() {
                break;
            }
        }
        worst
    }
}

fn beneath(top: &Path, path: &str) -> PathBuf {
    top.join(path.trim_start_matches('/'))
}

fn make(dir: &Path) -> Result<(), CgroupError> {
    fs::create_dir_all(dir).map_err(|source| CgroupError::Io {
        doing: "making",
        path: dir.display().to_string(),
        source,
    })
}

/// Makes a cgroup of the unified hierarchy, with controllers handed down all the way to it.
fn make_unified(top: &Path, path: &str) -> Result<(), CgroupError> {
    let mut at = top.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let there = orlop_disk::read_kernel_text(at.join("cgroup.controllers")).unwrap_or_default();
        let on =
            orlop_disk::read_kernel_text(at.join("cgroup.subtree_control")).unwrap_or_default();
        for controller in CONTROLLERS {
            let has = |list: &str| list.split_whitespace().any(|word| word == controller);
            if has(&there) && !has(&on) {
                write(&at, "cgroup.subtree_control", &format!("+{controller}"))?;
            }
        }
        at.push(part);
        make(&at)?;
    }
    Ok(())
}

fn write(dir: &Path, file: &str, value: &str) -> Result<(), CgroupError> {
    let path = dir.join(file);
    match fs::write(&path, value) {
        // A controller that the node does not have limits nothing.
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(CgroupError::Io {
            doing: "limiting",
            path: format!("{} to {value}", path.display()),
            source,
        }),
        Ok(()) => Ok(()),
    }
}

/// Removes a cgroup and those within it, the deepest first. A container that was given its cgroup
/// nests others deeper than any path.
fn remove_tree(dir: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut walk = match open(dir, flags, Mode::empty()).and_then(Walk::new) {
        Err(Errno::NOENT) => return Ok(()),
        walk => walk?,
    };
    while let Some(step) = walk.next()? {
        match step {
            Step::Entry(entry) if entry.kind == FileType::Directory => {
                match walk.enter(&entry.name) {
                    Err(Errno::NOENT | Errno::NODEV) => {}
                    entered => entered?,
                }
            }
            Step::Entry(_) => {}
            Step::Left(name) => remove_one(walk.here(), &name)?,
        }
    }
    drop(walk);
    Ok(remove_one(CWD, dir)?)
}

fn remove_one(at: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<(), Errno> {
    match unlinkat(at, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_hierarchy_is_limited_and_taken_down() {
        let dir = tempfile::tempdir().unwrap();
        let top = |name: &str| dir.path().join(name);
        let layout = Layout::Split(vec![
            (vec!["cpu".into(), "cpuacct".into()], top("cpu")),
            (vec!["memory".into()], top("memory")),
            (vec!["freezer".into()], top("freezer")),
        ]);
        let limits = Limits {
            cpu_shares: 512,
            cpu_quota: Some(50_000),
            memory: Some(1 << 20),
            pids: None,
            protection: None,
        };
        layout.apply("/kubepods/pod1", &limits).unwrap();
        let read = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap();
        assert_eq!(read("cpu/kubepods/pod1/cpu.shares"), "512");
        assert_eq!(read("cpu/kubepods/pod1/cpu.cfs_quota_us"), "50000");
        assert_eq!(
            read("memory/kubepods/pod1/memory.limit_in_bytes"),
            "1048576"
        );
        assert!(!top("freezer").exists());
        assert_eq!(limits.weight(), 59);
    }

    #[test]
    fn cgroups_that_a_container_nested_without_end_are_removed() {
        // Plain directories: what matters is how deep they are.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let layout = Layout::Unified(dir.path().to_owned());
        let pod = dir.path().join("kubepods/pod1");
        fs::create_dir_all(&pod).unwrap();
        orlop_testkit::nest(&pod, 60_000);
        let removed = std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || layout.remove("/kubepods/pod1"));
        removed.unwrap().join().unwrap().unwrap();
        assert!(!pod.exists());
    }
}
