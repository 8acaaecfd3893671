//! Fork, close and exit of the process.
#![allow(unsafe_code)]

use std::io;

/// The side of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fork {
    Child,
    Parent,
}

/// Forks.
///
/// # Safety
///
/// This process must have one thread only. Otherwise the child could wait for ever for a lock of another thread.
pub(crate) unsafe fn fork() -> io::Result<Fork> {
    // SAFETY: the caller promises that there is one thread, so the child may continue without restrictions.
    match unsafe { libc::fork() } {
        0 => Ok(Fork::Child),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(Fork::Parent),
    }
}

/// Closes every descriptor from `first` on.
///
/// # Safety
///
/// Nothing in this process may own a descriptor from `first` on and use it again.
pub(crate) unsafe fn close_from(first: libc::c_uint) -> io::Result<()> {
    // SAFETY: the caller promises that nothing owns the closed descriptors.
    match unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the process with all of its threads, without waiting for them.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: no cleanup is needed at exit: all important state is in files or in the kernel.
    unsafe { libc::_exit(code) }
}
