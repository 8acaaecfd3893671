//! Directories whose files appear with other ids: `mount_setattr(2)`, which has no safe wrapper.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::{Errno, Result};
use rustix::mount::{OpenTreeFlags, open_tree};

/// A detached mount of the directory whose files appear with the ids of a user namespace.
pub fn mapped_clone(dir: &Path, userns: impl AsFd) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, dir, flags)?;
    set_idmap(&tree, userns.as_fd())?;
    Ok(tree)
}

/// Makes all that is accessed through the detached mount appear with the ids of `userns`.
pub fn set_idmap(mount: impl AsFd, userns: BorrowedFd<'_>) -> Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: u64::try_from(userns.as_raw_fd()).map_err(|_| Errno::BADF)?,
    };
    // SAFETY: both descriptors are borrowed and so open; the path is a NUL-terminated literal;
    // the kernel only reads the structure, whose size is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error()
            .raw_os_error()
            .map_or(Errno::IO, Errno::from_raw_os_error))
    }
}
