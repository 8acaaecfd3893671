//! What mounts need of the kernel that has no safe wrapper: `unshare(2)`.
#![allow(unsafe_code)]

use rustix::io::Result;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives this thread mounts of its own: nobody else sees what it mounts from now on. There is
/// no way back, so the thread should be one that ends soon.
pub(crate) fn own_mounts() -> Result<()> {
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
