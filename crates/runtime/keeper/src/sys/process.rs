//! Forks, waits for, and exits processes.
#![allow(unsafe_code)]

use std::io;

use rustix::process::Pid;

/// The side of a fork.
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The old one.
    Parent(Pid),
}

/// Forks this process.
///
/// # Safety
///
/// This process has one thread: in a child of several, a lock that another thread held would never be released.
pub(crate) unsafe fn fork() -> io::Result<Fork> {
    // SAFETY: with a single thread, as promised, the child may run any code.
    sides(libc::c_long::from(unsafe { libc::fork() }))
}

/// The parent of a new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// The caller.
    Caller,
    /// The caller's parent.
    Grandparent,
}

/// Forks a child that is the first process of a new PID namespace.
///
/// # Safety
///
/// This process has one thread, as for [`fork`], and the child uses nothing that caches the process's identity.
pub(crate) unsafe fn fork_into_pid_namespace(parent: Parent) -> io::Result<Fork> {
    let sibling = match parent {
        Parent::Caller => 0,
        Parent::Grandparent => libc::CLONE_PARENT,
    };
    let flags = (libc::CLONE_NEWPID | libc::SIGCHLD | sibling) as libc::c_ulong;
    // SAFETY: without a stack and without CLONE_VM this is fork(2); no thread exists whose locks
    // the child could inherit. The order of the other arguments does not matter, they are 0.
    sides(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })
}

fn sides(result: libc::c_long) -> io::Result<Fork> {
    match result {
        0 => Ok(Fork::Child),
        pid => match Pid::from_raw(pid as i32).filter(|_| pid > 0) {
            Some(pid) => Ok(Fork::Parent(pid)),
            None => Err(io::Error::last_os_error()),
        },
    }
}

/// Returns a child that has ended and is not reaped yet.
pub(crate) fn ended_child() -> Option<Pid> {
    // SAFETY: all zeroes is a valid siginfo.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the siginfo lives across the call.
    let result = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, options) };
    if result != 0 {
        return None;
    }
    // SAFETY: waitid sets the PID, or leaves it 0 if no child has ended.
    Pid::from_raw(unsafe { info.si_pid() })
}

/// Ends the process at once.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Closes every descriptor from `first` on.
///
/// # Safety
///
/// Nothing in this process owns a descriptor from `first` on and uses it again.
pub(crate) unsafe fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: the closed descriptors have no owner, as promised.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
