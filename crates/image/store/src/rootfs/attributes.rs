//! Wraps `unshare(2)`, which mounts need and which has no safe wrapper.
#![allow(unsafe_code)]

use rustix::io::Result;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves this thread to a private mount namespace, so that its mounts are invisible elsewhere. This cannot be undone,
/// so the thread should end soon.
pub(crate) fn own_mounts() -> Result<()> {
    // SAFETY: `unshare` is unsafe only for a shared file descriptor table, which this call does not unshare.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    let alone = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", alone)
}

/// Gives this thread its own working directory.
pub(super) fn own_directory() -> Result<()> {
    // SAFETY: as above.
    unsafe { unshare_unsafe(UnshareFlags::FS) }
}
