//! The `resctrl` mount and its options.

use std::path::{Path, PathBuf};

use orlop_fs::Mountinfo;

use crate::error::{Result, failed};

/// The conventional mount point.
const USUAL: &str = "/sys/fs/resctrl";

/// A mounted `resctrl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its root, which is a group itself.
    pub root: PathBuf,
    /// Whether bandwidth is in megabytes per second, by the option `mba_MBps`.
    pub in_mbps: bool,
}

impl Mount {
    /// Finds the mount in this process's mount namespace, if there is one.
    pub fn find() -> Result<Option<Self>> {
        let table = Path::new("/proc/self/mountinfo");
        let table = Mountinfo::own().map_err(failed("reading", table))?;
        Ok(Self::of(&table))
    }

    /// Returns the mount point, without reading the mount table if it is the usual one.
    pub fn root() -> Option<PathBuf> {
        let usual = PathBuf::from(USUAL);
        if usual.join("schemata").exists() {
            return Some(usual);
        }
        Self::find().ok().flatten().map(|mount| mount.root)
    }

    fn of(table: &Mountinfo) -> Option<Self> {
        let mounts = table.mounts().filter(|mount| mount.kind() == "resctrl");
        let mounts = mounts.map(|mount| Self {
            root: mount.point(),
            in_mbps: mount.words().any(|word| word == "mba_MBps"),
        });
        let mut mounts: Vec<Self> = mounts.collect();
        let usual = mounts
            .iter()
            .rposition(|mount| mount.root == Path::new(USUAL));
        match usual {
            Some(at) => Some(mounts.swap_remove(at)),
            None => mounts.pop(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;

    /// Makes a tree that looks like `resctrl`: no machine of the project has it.
    pub(crate) fn pretended(files: &[(String, &str)]) -> (tempfile::TempDir, Mount) {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mount = Mount {
            root: dir.path().to_owned(),
            in_mbps: false,
        };
        (dir, mount)
    }

    #[test]
    fn the_usual_place_comes_first_with_its_options() {
        let none = Mountinfo::from_text("20 1 0:5 / /proc rw - proc proc rw\n");
        assert_eq!(Mount::of(&none), None);
        let table = "\
30 1 0:40 / /sys/fs/resctrl rw,nosuid - resctrl resctrl rw,cdp,mba_MBps
31 1 0:40 / /mnt/other rw - resctrl resctrl rw
";
        let found = Mount::of(&Mountinfo::from_text(table)).unwrap();
        assert_eq!(found.root, Path::new(USUAL));
        assert!(found.in_mbps);
        let elsewhere = "31 1 0:40 / /mnt/a\\040b rw - resctrl resctrl rw,cdp\n";
        let found = Mount::of(&Mountinfo::from_text(elsewhere)).unwrap();
        assert_eq!(found.root, Path::new("/mnt/a b"));
        assert!(!found.in_mbps);
    }
}
