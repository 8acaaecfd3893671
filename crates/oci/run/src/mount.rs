//! Opens and copies mounts.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstat, open, openat};
use rustix::io::{Errno, dup};
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::path::Arg;

use crate::sys::{MountAttr, set_mount_attributes};

/// Returns a detached copy of the tree at a path, with all mounts below it. It allocates nothing if the path ends with
/// a NUL.
pub(crate) fn detach(path: impl Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags)
}

/// Opens an `O_PATH` descriptor.
pub(crate) fn name(path: &Path) -> rustix::io::Result<OwnedFd> {
    open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// Makes the mount of a directory private, by walking up to its root.
pub(crate) fn make_private_below(place: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let mut here = dup(place)?;
    loop {
        match set_mount_attributes(
            here.as_fd(),
            false,
            &MountAttr::propagation(libc::MS_PRIVATE),
        ) {
            // This is not the root of a mount.
            Err(Errno::INVAL) => {}
            done => return done,
        }
        let up = openat(
            here.as_fd(),
            c"..",
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let (old, new) = (fstat(&here)?, fstat(&up)?);
        if (old.st_dev, old.st_ino) == (new.st_dev, new.st_ino) {
            return Err(Errno::INVAL);
        }
        here = up;
    }
}
