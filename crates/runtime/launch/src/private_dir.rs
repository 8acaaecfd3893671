//! The directory below which keepers mount what must not show in the host's mount table.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use orlop_fs::Mountinfo;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use crate::error::{Error, Result};

/// Makes `path` a directory whose mounts propagate nowhere: a mount of itself, private. Done once
/// at the daemon's start, before the first keeper; does nothing where it is done already.
///
/// A copy of the node's mounts otherwise remains a peer of them. Root file systems, image
/// volumes and `/dev/shm` of pods must lie below such a directory.
pub fn make_private_dir(path: &Path) -> Result<()> {
    let failure = |doing| {
        move |source: io::Error| Error::File {
            doing,
            path: path.to_owned(),
            source,
        }
    };
    DirBuilder::new()
        .recursive(true)
        // The root of a user namespace must be able to walk through it.
        .mode(0o711)
        .create(path)
        .map_err(failure("creating directory"))?;
    let path = fs::canonicalize(path).map_err(failure("resolving directory"))?;
    let table = Mountinfo::own().map_err(failure("reading the mount table to find"))?;
    if !table.mounts().any(|mount| mount.point() == path) {
        mount_bind(&path, &path)
            .map_err(|errno| failure("bind-mounting on itself")(errno.into()))?;
    }
    mount_change(&path, MountPropagationFlags::PRIVATE)
        .map_err(|errno| failure("setting private mount propagation of")(errno.into()))
}
