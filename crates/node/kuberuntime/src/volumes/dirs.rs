//! The directory of a pod, in the kubelet's layout.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use orlop_fs::Mountinfo;
use rustix::mount::{UnmountFlags, unmount};

use super::VolumeError;

/// The directory of a pod, in the kubelet's layout.
#[derive(Debug, Clone)]
pub(crate) struct PodDirs {
    root: PathBuf,
}

impl PodDirs {
    /// The directory `<root>/pods/<uid>`. [`crate::manager::PodInput`] guarantees that the uid is a
    /// plain file name.
    pub(crate) fn new(root: &Path, uid: &str) -> Self {
        Self {
            root: root.join("pods").join(uid),
        }
    }

    /// Returns the directory of a volume of this kind.
    pub(super) fn volume(&self, kind: &str, name: &str) -> PathBuf {
        let kind = format!("kubernetes.io~{kind}");
        self.root.join("volumes").join(kind).join(name)
    }

    /// Returns where a subPath of a volume is mounted for a container.
    pub(super) fn sub_path(&self, volume: &str, container: &str, index: usize) -> PathBuf {
        let base = self.root.join("volume-subpaths");
        base.join(volume).join(container).join(index.to_string())
    }

    pub(crate) fn hosts(&self) -> PathBuf {
        self.root.join("etc-hosts")
    }

    /// Returns the directory of a container's files outside of volumes.
    pub(crate) fn container(&self, name: &str) -> PathBuf {
        self.root.join("containers").join(name)
    }

    pub(crate) fn make(&self) -> Result<(), VolumeError> {
        for dir in [&self.root, &self.root.join("volumes")] {
            make_dir(dir, 0o750)?;
        }
        Ok(())
    }

    /// Unmounts everything beneath the pod's directory and removes it. If an unmount fails, nothing
    /// is removed: the files may belong to the node.
    pub(crate) fn remove(&self) -> Result<(), VolumeError> {
        for point in mounts_beneath(&self.root) {
            // Another pod's container may still use it: the detached mount disappears later.
            if let Err(source) = unmount(&point, UnmountFlags::DETACH) {
                return Err(VolumeError::io("unmount", &point, source.into()));
            }
        }
        orlop_fs::remove_tree(&self.root)
            .map_err(|source| VolumeError::io("remove", &self.root, source))
    }

    /// Unmounts the subPaths of a container; its next instance gets new mounts.
    pub(crate) fn drop_sub_paths(&self, container: &str) {
        let base = self.root.join("volume-subpaths");
        if !base.is_dir() {
            return;
        }
        for point in mounts_beneath(&base) {
            let own = point.parent().and_then(Path::file_name);
            if own.is_some_and(|name| name == container) {
                let _ = unmount(&point, UnmountFlags::DETACH);
            }
        }
    }
}

/// Creates a directory and its missing parents with this mode.
pub(super) fn make_dir(path: &Path, mode: u32) -> Result<(), VolumeError> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|source| VolumeError::io("create the directory", path, source))
}

/// Lists the mount points beneath a directory, the last mounted first.
pub(super) fn mounts_beneath(dir: &Path) -> Vec<PathBuf> {
    let Ok(table) = Mountinfo::own() else {
        return Vec::new();
    };
    table.points_beneath(dir).rev().collect()
}
