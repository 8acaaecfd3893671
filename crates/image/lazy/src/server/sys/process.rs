//! Making and stripping the process.
#![allow(unsafe_code)]

use std::io;

/// Which side of a fork this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fork {
    Child,
    Parent,
}

/// Forks.
///
/// # Safety
///
/// This process has one thread: the child of several might wait for ever for what another held.
pub(crate) unsafe fn fork() -> io::Result<Fork> {
    // SAFETY: with one thread, as promised, the child may go on as it likes.
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
/// Nothing in this process owns a descriptor from `first` on and uses it again.
pub(crate) unsafe fn close_from(first: libc::c_uint) -> io::Result<()> {
    // SAFETY: nobody owns what is closed, as promised.
    match unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the process with all of its threads, wherever they are.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: nothing is to be done before the end: what matters is in files or in the kernel.
    unsafe { libc::_exit(code) }
}
