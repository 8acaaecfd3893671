//! Mount propagation between a volume and the node.

use std::path::{Path, PathBuf};

use orlop_cri_api::v1::MountPropagation;
use orlop_fs::{Mount, Mountinfo};

use super::Error;

/// Returns a bind mount's option and the root's propagation for the requested mode.
pub(super) fn options(mode: MountPropagation) -> (&'static str, Option<&'static str>) {
    match mode {
        MountPropagation::PropagationPrivate => ("rprivate", None),
        MountPropagation::PropagationHostToContainer => ("rslave", Some("rslave")),
        MountPropagation::PropagationBidirectional => ("rshared", Some("rshared")),
    }
}

/// The node's mounts, read once per container and only if needed.
#[derive(Default)]
pub(super) struct HostMounts {
    entries: Option<Vec<Entry>>,
}

struct Entry {
    point: PathBuf,
    shared: bool,
    slave: bool,
}

impl HostMounts {
    /// Refuses a mode that the path's mount does not allow.
    pub(super) fn check(
        &mut self,
        mode: MountPropagation,
        path: &Path,
        field: &str,
    ) -> Result<(), Error> {
        if mode == MountPropagation::PropagationPrivate {
            return Ok(());
        }
        let entries = match &mut self.entries {
            Some(entries) => entries,
            none => {
                const FILE: &str = "/proc/self/mountinfo";
                let table = Mountinfo::own()
                    .map_err(|error| Error::io(field, format!("reading {FILE}"), error))?;
                none.insert(entries(&table))
            }
        };
        // The last of several mounts on one path is the visible one.
        let entry = entries
            .iter()
            .filter(|entry| path.starts_with(&entry.point))
            .max_by_key(|entry| entry.point.components().count());
        let Some(entry) = entry else {
            let problem = format!(
                "the node has no mount point that contains {}",
                path.display()
            );
            return Err(Error::unmet(field, problem));
        };
        let (fits, needed) = match mode {
            MountPropagation::PropagationBidirectional => (entry.shared, "shared"),
            _ => (entry.shared || entry.slave, "shared or slave"),
        };
        if fits {
            return Ok(());
        }
        let problem = format!(
            "{} is on the mount {}, which is not {needed}",
            path.display(),
            entry.point.display()
        );
        Err(Error::unmet(field, problem))
    }
}

fn entries(table: &Mountinfo) -> Vec<Entry> {
    let mounts = table.mounts();
    let entry = |mount: Mount<'_>| Entry {
        point: mount.point(),
        shared: mount.is_shared(),
        slave: mount.is_slave(),
    };
    mounts.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:20 / /data rw master:2 - tmpfs tmpfs rw
23 21 0:21 / /data/own rw - tmpfs tmpfs rw
24 21 0:22 / /with\\040blank rw shared:9 master:3 - tmpfs tmpfs rw
";

    fn check(mode: MountPropagation, path: &str) -> Result<(), Error> {
        HostMounts {
            entries: Some(entries(&Mountinfo::from_text(TABLE))),
        }
        .check(mode, Path::new(path), "config.mounts[0]")
    }

    #[test]
    fn the_nearest_mount_decides() {
        use MountPropagation::{
            PropagationBidirectional as Both, PropagationHostToContainer as In,
            PropagationPrivate as Private,
        };
        for (mode, path, fits) in [
            (Both, "/srv", true),
            (Both, "/data/x", false),
            (In, "/data/x", true),
            (In, "/data/own/x", false),
            (Private, "/data/own/x", true),
            (Both, "/with blank/x", true),
            (In, "/database", true),
        ] {
            assert_eq!(check(mode, path).is_ok(), fits, "{mode:?} {path}");
        }
    }

    #[test]
    fn the_mount_in_the_way_is_named() {
        let error = check(MountPropagation::PropagationBidirectional, "/data/own/x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "config.mounts[0]: /data/own/x is on the mount /data/own, which is not shared"
        );
    }
}
