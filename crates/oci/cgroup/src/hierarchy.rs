//! The cgroup hierarchies of this node.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use orlop_fs::{Membership, Mountinfo};

use crate::{CgroupPath, Error};

/// The cgroup version that controls this node's resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// Only version 1.
    V1,
    /// Only version 2.
    V2,
    /// Version 1 has the relevant controllers, with a version 2 tree in addition.
    Hybrid,
}

/// The cgroup hierarchies of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchies {
    version: Version,
    v1: BTreeMap<String, PathBuf>,
    v2: Option<PathBuf>,
    v2_controllers: Vec<String>,
    v2_options: Vec<String>,
}

impl Hierarchies {
    /// Detects the hierarchies mounted in this process's mount namespace.
    pub fn detect() -> Result<Self, Error> {
        let table = Mountinfo::own().map_err(Error::io("reading", "/proc/self/mountinfo"))?;
        Self::from_mounts(&table)
    }

    /// Finds the hierarchies in a mount table.
    pub fn from_mounts(table: &Mountinfo) -> Result<Self, Error> {
        let mut v1 = BTreeMap::new();
        let mut v2 = None;
        let mut v2_options = Vec::new();
        for mount in table.mounts() {
            match mount.kind() {
                "cgroup" => {
                    // The options contain the controllers that are mounted together. The first mount of a controller is
                    // the usual one.
                    for controller in mount.words().filter(|name| is_controller(name)) {
                        v1.entry(controller.to_owned())
                            .or_insert_with(|| mount.point());
                    }
                }
                "cgroup2" if v2.is_none() => {
                    v2 = Some(mount.point());
                    v2_options = mount.words().map(str::to_owned).collect();
                }
                _ => {}
            }
        }
        let version = match (v1.contains_key("memory") || v1.contains_key("cpu"), &v2) {
            (true, None) => Version::V1,
            (true, Some(_)) => Version::Hybrid,
            (false, Some(_)) => Version::V2,
            (false, None) => return Err(Error::NotMounted),
        };
        let v2_controllers = match &v2 {
            Some(mount) => {
                let file = mount.join("cgroup.controllers");
                let text = orlop_fs::read_kernel_text(&file).map_err(Error::io("reading", file))?;
                text.split_whitespace().map(str::to_owned).collect()
            }
            None => Vec::new(),
        };
        Ok(Self {
            version,
            v1,
            v2,
            v2_controllers,
            v2_options,
        })
    }

    /// Hierarchies with a single cgroup as their root, from the cgroup's own directories.
    pub fn of_one_cgroup(v1: BTreeMap<String, PathBuf>, v2: Option<PathBuf>) -> Self {
        let version = match (v1.is_empty(), &v2) {
            (true, _) => Version::V2,
            (false, Some(_)) => Version::Hybrid,
            (false, None) => Version::V1,
        };
        Self {
            version,
            v1,
            v2,
            v2_controllers: Vec::new(),
            v2_options: Vec::new(),
        }
    }

    /// Returns the version that controls resources.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns whether version 2 controls resources.
    pub fn is_v2(&self) -> bool {
        self.version == Version::V2
    }

    /// Returns whether the version that controls resources has this controller.
    pub fn has(&self, controller: &str) -> bool {
        if self.is_v2() {
            self.v2_controllers.iter().any(|own| own == controller)
        } else {
            self.v1.contains_key(controller)
        }
    }

    /// Returns the mount point of the version 2 tree.
    pub fn v2_mount(&self) -> Option<&Path> {
        self.v2.as_deref()
    }

    /// Returns the mount options of the version 2 tree that apply to the whole node.
    pub fn v2_options(&self) -> Vec<String> {
        let shared = ["nsdelegate", "memory_recursiveprot"];
        self.v2_options
            .iter()
            .filter(|option| shared.contains(&option.as_str()))
            .cloned()
            .collect()
    }

    /// Returns the directory with this controller's files of a cgroup, if the controller exists.
    pub fn directory(&self, controller: &str, path: &CgroupPath) -> Option<PathBuf> {
        match (self.is_v2(), &self.v2) {
            (true, Some(mount)) => Some(path.below(mount)),
            _ => self.v1.get(controller).map(|mount| path.below(mount)),
        }
    }

    /// Returns all directories of a cgroup, without duplicates.
    pub fn directories(&self, path: &CgroupPath) -> Vec<PathBuf> {
        let mut mounts: Vec<&PathBuf> = if self.is_v2() {
            Vec::new()
        } else {
            self.v1.values().collect()
        };
        // On a hybrid node, systemd and few controllers use the version 2 tree.
        if self.is_v2() {
            mounts.extend(&self.v2);
        }
        mounts.sort();
        mounts.dedup();
        mounts.into_iter().map(|mount| path.below(mount)).collect()
    }

    /// Returns the page sizes that the hugetlb controller can limit, such as `2MB`.
    pub fn hugepage_sizes(&self) -> Vec<String> {
        if !self.has("hugetlb") {
            return Vec::new();
        }
        hugepage_sizes()
    }

    /// Returns whether swap is accounted for and can be limited.
    pub fn swap_accounting(&self) -> bool {
        if !self.is_v2() {
            let memory = self.v1.get("memory");
            return memory.is_some_and(|mount| mount.join("memory.memsw.limit_in_bytes").exists());
        }
        // The root has no such file, so its child cgroups are checked.
        let Some(root) = &self.v2 else { return false };
        let below = fs::read_dir(root)
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        self.own_v2_directory()
            .into_iter()
            .chain(below.map(|entry| entry.path()))
            .any(|cgroup| cgroup.join("memory.swap.max").exists())
    }

    fn own_v2_directory(&self) -> Option<PathBuf> {
        let own = Membership::own().ok()?;
        Some(
            CgroupPath::parse(own.path("")?)
                .ok()?
                .below(self.v2.as_deref()?),
        )
    }
}

/// Returns the huge page sizes of this machine, such as `2MB`.
pub fn hugepage_sizes() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/kernel/mm/hugepages") else {
        return Vec::new();
    };
    let mut sizes: Vec<u64> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_prefix("hugepages-")?
                .strip_suffix("kB")?
                .parse()
                .ok()
        })
        .collect();
    sizes.sort_unstable();
    sizes.into_iter().map(page_size_name).collect()
}

/// Returns the name of a page size in the controller's file names.
fn page_size_name(kilobytes: u64) -> String {
    match kilobytes {
        size if size >= 1 << 20 && size % (1 << 20) == 0 => format!("{}GB", size >> 20),
        size if size >= 1 << 10 && size % (1 << 10) == 0 => format!("{}MB", size >> 10),
        size => format!("{size}KB"),
    }
}

fn is_controller(option: &str) -> bool {
    const NAMES: [&str; 14] = [
        "cpu",
        "cpuacct",
        "cpuset",
        "memory",
        "devices",
        "freezer",
        "blkio",
        "pids",
        "hugetlb",
        "net_cls",
        "net_prio",
        "perf_event",
        "rdma",
        "misc",
    ];
    NAMES.contains(&option) || option == "name=systemd"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_text(text: &str) -> Result<Hierarchies, Error> {
        Hierarchies::from_mounts(&Mountinfo::from_text(text))
    }

    const V1: &str = "\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
";

    #[test]
    fn controllers_mounted_together_share_a_directory() {
        let node = from_text(V1).unwrap();
        assert_eq!(node.version(), Version::V1);
        let path = CgroupPath::parse("/a").unwrap();
        let cpu = PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/a");
        assert_eq!(node.directory("cpu", &path), Some(cpu.clone()));
        assert_eq!(node.directory("cpuacct", &path), Some(cpu));
        assert_eq!(node.directory("pids", &path), None);
        assert_eq!(node.directories(&path).len(), 3);
    }

    #[test]
    fn a_version_2_tree_beside_controllers_makes_a_hybrid() {
        let v2 = tempfile::tempdir().unwrap();
        fs::write(v2.path().join("cgroup.controllers"), "hugetlb\n").unwrap();
        let line = format!(
            "41 31 0:38 / {} rw - cgroup2 cgroup2 rw,nsdelegate\n",
            v2.path().display()
        );
        let node = from_text(&format!("{V1}{line}")).unwrap();
        assert_eq!(node.version(), Version::Hybrid);
        assert!(node.has("memory") && !node.has("hugetlb"));
        assert!(node.hugepage_sizes().is_empty());

        fs::write(v2.path().join("cgroup.controllers"), "cpu memory hugetlb\n").unwrap();
        let node = from_text(&line).unwrap();
        assert_eq!(node.version(), Version::V2);
        assert!(node.has("hugetlb"));
        assert_eq!(node.v2_options(), ["nsdelegate"]);
        let path = CgroupPath::parse("/a").unwrap();
        assert_eq!(node.directories(&path), [v2.path().join("a")]);
    }

    #[test]
    fn a_node_without_cgroups_says_so() {
        assert!(matches!(from_text(""), Err(Error::NotMounted)));
    }

    #[test]
    fn page_sizes_are_named_as_the_kernel_does() {
        for (kilobytes, name) in [
            (64, "64KB"),
            (2048, "2MB"),
            (1 << 20, "1GB"),
            (32 << 10, "32MB"),
        ] {
            assert_eq!(page_size_name(kilobytes), name);
        }
    }
}
