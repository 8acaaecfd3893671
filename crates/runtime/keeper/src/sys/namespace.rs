//! Moves the process into new namespaces.
#![allow(unsafe_code)]

use rustix::io::Result;
pub(crate) use rustix::thread::UnshareFlags;

/// Moves this process into new namespaces. Must be called while it has one thread.
pub(crate) fn unshare(flags: UnshareFlags) -> Result<()> {
    // SAFETY: FILES, the flag that may leave descriptors dangling, is never used here.
    unsafe { rustix::thread::unshare_unsafe(flags.difference(UnshareFlags::FILES)) }
}
