//! Directories for mounts of keepers that must not appear in the host's mount table.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use orlop_fs::Mountinfo;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use crate::error::{Error, Result};

/// Turns `path` into a directory without mount propagation, by a private bind mount on itself. The daemon calls it at
/// its start, before the first keeper; it may be repeated.
///
/// Otherwise a copy of the host's mounts stays in their peer group. Root filesystems, image volumes and `/dev/shm` of
/// pods must be below such a directory.
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
        // The root of a user namespace must be able to traverse it.
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
