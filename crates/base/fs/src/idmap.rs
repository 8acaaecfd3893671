//! ID-mapped mounts of directories.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::{Errno, Result};

use crate::mount_attr::{MountAttr, detached, set_mount_attributes};

/// Makes a detached ID-mapped mount of a directory: in it, file owners are mapped as in the user namespace.
pub fn mapped_clone(dir: &Path, userns: impl AsFd) -> Result<OwnedFd> {
    let tree = detached(dir)?;
    set_idmap(&tree, userns.as_fd())?;
    Ok(tree)
}

/// Maps the IDs of a detached mount to those of `userns`.
pub fn set_idmap(mount: impl AsFd, userns: BorrowedFd<'_>) -> Result<()> {
    let attr = MountAttr {
        set: MountAttr::IDMAP,
        userns: u64::try_from(userns.as_raw_fd()).map_err(|_| Errno::BADF)?,
        ..MountAttr::default()
    };
    set_mount_attributes(mount.as_fd(), false, &attr)
}
