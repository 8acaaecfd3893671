//! The mount points of the cgroup hierarchies.

use std::path::{Path, PathBuf};

use orlop_fs::{Membership, Mountinfo};
use rustix::fs::statfs;

use crate::error::{Error, Result, While};

/// The conventional mount point.
const USUAL: &str = "/sys/fs/cgroup";

/// `CGROUP_SUPER_MAGIC` and `CGROUP2_SUPER_MAGIC` of the kernel's `magic.h`.
const MAGIC: i64 = 0x0027_e0eb;
const MAGIC_2: i64 = 0x6367_7270;

/// The mounted hierarchies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mounts {
    V2(Mounted),
    /// The v1 hierarchies, and the v2 tree (if any) under the empty controller name.
    V1(Vec<Mounted>),
}

/// A mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    pub(super) controllers: Vec<String>,
    pub(super) point: PathBuf,
    /// The cgroup of this process, below the mount point.
    pub(super) own: String,
}

impl Mounts {
    /// Checks the usual mount points. The mount table is read only if hierarchies are elsewhere, or if the cgroup of
    /// this process is needed: then a mount may show only a part of a hierarchy.
    pub(super) fn find(relative: bool) -> Result<Self> {
        if !relative && is(Path::new(USUAL), MAGIC_2) {
            return Ok(Self::V2(Mounted {
                controllers: Vec::new(),
                point: USUAL.into(),
                own: "/".to_owned(),
            }));
        }
        let membership = Membership::own().doing(|| "open /proc/self/cgroup".to_owned())?;
        if !relative && let Some(usual) = usual(&membership) {
            return Ok(Self::V1(usual));
        }
        let table = Mountinfo::own().doing(|| "open /proc/self/mountinfo".to_owned())?;
        Self::of(&membership, &table)
    }

    fn of(membership: &Membership, table: &Mountinfo) -> Result<Self> {
        let mut found = Vec::new();
        for controllers in membership.controllers() {
            let wanted = if controllers == [""] {
                "cgroup2"
            } else {
                "cgroup"
            };
            let mount = table.mounts().find(|mount| {
                let has = |name: &&str| mount.words().any(|word| word == *name);
                mount.kind() == wanted && (wanted == "cgroup2" || controllers.iter().all(has))
            });
            let Some(mount) = mount else { continue };
            let own = membership.path(controllers[0]).unwrap_or("/");
            let root = mount.root();
            let own = Path::new(own)
                .strip_prefix(&root)
                .map_or_else(|_| own.to_owned(), |below| format!("/{}", below.display()));
            found.push(Mounted {
                controllers: controllers.iter().map(|it| (*it).to_owned()).collect(),
                point: mount.point(),
                own,
            });
        }
        let governs = |it: &Mounted| it.controllers != [""] && it.controllers != ["name=systemd"];
        if found.iter().any(governs) {
            return Ok(Self::V1(found));
        }
        let v2 = found.into_iter().find(|it| it.controllers == [""]);
        let mut v2 = v2.ok_or_else(|| Error::new("no cgroup mount found in mountinfo"))?;
        v2.controllers.clear();
        Ok(Self::V2(v2))
    }
}

/// Returns the v1 hierarchies at their usual mount points: each in a directory named for its controllers.
fn usual(membership: &Membership) -> Option<Vec<Mounted>> {
    let mut found = Vec::new();
    for controllers in membership.controllers() {
        let (name, magic) = match controllers[..] {
            [""] => ("unified".to_owned(), MAGIC_2),
            ["name=systemd"] => ("systemd".to_owned(), MAGIC),
            _ => (controllers.join(","), MAGIC),
        };
        let point = Path::new(USUAL).join(name);
        // Skips a hierarchy that is not mounted; one mounted under another name is found in the mount table.
        if is(&point, magic) {
            found.push(Mounted {
                controllers: controllers.iter().map(|it| (*it).to_owned()).collect(),
                point,
                own: "/".to_owned(),
            });
        } else if magic == MAGIC {
            return None;
        }
    }
    found
        .iter()
        .any(|it| it.controllers != [""])
        .then_some(found)
}

fn is(path: &Path, magic: i64) -> bool {
    statfs(path).is_ok_and(|found| found.f_type == magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_of_a_hierarchy_may_be_a_part_of_it() {
        let membership = Membership::from_text(
            "3:cpu,cpuacct:/docker/abc/x\n2:memory:/docker/abc\n1:name=systemd:/s\n0::/u\n",
        );
        let table = Mountinfo::from_text(
            "1 1 0:1 /docker/abc /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             2 1 0:2 / /cg/memory rw - cgroup cgroup rw,memory\n\
             3 1 0:3 / /cg/unified rw - cgroup2 cgroup2 rw\n",
        );
        let Mounts::V1(found) = Mounts::of(&membership, &table).unwrap() else {
            panic!("version 2");
        };
        let told: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    it.controllers.join(","),
                    it.point.to_str().unwrap(),
                    it.own.as_str(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("cpu,cpuacct".to_owned(), "/cg/cpu", "/x"),
                ("memory".to_owned(), "/cg/memory", "/docker/abc"),
                (String::new(), "/cg/unified", "/u"),
            ]
        );
    }

    #[test]
    fn a_tree_of_version_2_alone_governs() {
        let membership = Membership::from_text("0::/user.slice/a.scope\n");
        let line = "3 1 0:3 / /cg rw - cgroup2 cgroup2 rw\n";
        let found = Mounts::of(&membership, &Mountinfo::from_text(line)).unwrap();
        let Mounts::V2(found) = found else {
            panic!("version 1")
        };
        assert_eq!(
            (found.point.to_str(), found.own.as_str()),
            (Some("/cg"), "/user.slice/a.scope")
        );
        let none = Mounts::of(&membership, &Mountinfo::from_text("")).unwrap_err();
        assert_eq!(none.to_string(), "no cgroup mount found in mountinfo");
    }
}
