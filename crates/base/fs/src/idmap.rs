//! Directories whose files appear with other ids.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::{Errno, Result};

use crate::mount_attr::{MountAttr, detached, set_mount_attributes};

/// A detached mount of the directory whose files appear with the ids of a user namespace.
pub fn mapped_clone(dir: &Path, userns: impl AsFd) -> Result<OwnedFd> {
    let tree = detached(dir)?;
    set_idmap(&tree, userns.as_fd())?;
    Ok(tree)
}

/// Makes all that is accessed through the detached mount appear with the ids of `userns`.
pub fn set_idmap(mount: impl AsFd, userns: BorrowedFd<'_>) -> Result<()> {
    let attr = MountAttr {
        set: MountAttr::IDMAP,
        userns: u64::try_from(userns.as_raw_fd()).map_err(|_| Errno::BADF)?,
        ..MountAttr::default()
    };
    set_mount_attributes(mount.as_fd(), false, &attr)
}
