//! What mounts need of the kernel that has no safe wrapper: `mount_setattr(2)`, `unshare(2)`.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::{Errno, Result};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives this thread mounts of its own: nobody else sees what it mounts from now on. There is
/// no way back, so the thread should be one that ends soon.
pub(super) fn own_mounts() -> Result<()> {
    // SAFETY: only a shared table of descriptors could be pulled away from under others, and
    // that is not asked for.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    let alone = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", alone)
}

/// Gives this thread a working directory of its own.
pub(super) fn own_directory() -> Result<()> {
    // SAFETY: as above.
    unsafe { unshare_unsafe(UnshareFlags::FS) }
}

/// Makes all that is accessed through the detached mount appear with the ids of `userns`.
pub(super) fn set_idmap(mount: impl AsFd, userns: BorrowedFd<'_>) -> Result<()> {
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
