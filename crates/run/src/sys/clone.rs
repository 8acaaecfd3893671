//! Making the process of a container, in its namespaces and its cgroup at once.
#![allow(unsafe_code, reason = "clone3 and setns by pidfd are wrapped nowhere")]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use orlop_processor::Here;
use rustix::io::{Errno, Result};

/// What a new process begins with.
#[derive(Debug, Default)]
pub(crate) struct CloneArgs<'a> {
    /// `CLONE_NEW…`.
    pub(crate) namespaces: u64,
    /// The cgroup of version 2 that it is made in.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
    /// Whether it is the caller's parent's child instead of the caller's.
    pub(crate) sibling: bool,
    /// Whether it begins on the caller's processor, and is kept there until it says where it wants to
    /// be: for a caller that does nothing but wait for it.
    pub(crate) here: bool,
}

/// A process that was made.
#[derive(Debug)]
pub(crate) struct Cloned {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
}

/// Which side of a clone this is.
pub(crate) enum Side {
    Child,
    Parent(Cloned),
}

/// `struct clone_args` of the kernel.
#[repr(C)]
#[derive(Default)]
struct KernelArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Clones this process, which must have one thread: then the child may go on as it likes.
pub(crate) fn clone(args: &CloneArgs<'_>) -> Result<Side> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let mut pidfd: i32 = -1;
    let mut kernel = KernelArgs {
        flags: args.namespaces | libc::CLONE_PIDFD as u64,
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..KernelArgs::default()
    };
    if let Some(cgroup) = args.cgroup {
        kernel.flags |= CLONE_INTO_CGROUP;
        kernel.cgroup = cgroup.as_raw_fd() as u64;
    }
    if args.sibling {
        // The signal is the one that the parent's end gives then.
        kernel.flags |= libc::CLONE_PARENT as u64;
        kernel.exit_signal = 0;
    }
    let here = args.here.then(Here::stay).flatten();
    // SAFETY: without CLONE_VM and a stack this is fork(2); the structure and the place of the
    // descriptor live across the call; this process has one thread (there is no other anywhere in
    // this program), so that no lock is inherited that nobody opens.
    let result =
        unsafe { libc::syscall(libc::SYS_clone3, &raw mut kernel, size_of::<KernelArgs>()) };
    match result {
        0 => {
            std::mem::forget(here);
            Ok(Side::Child)
        }
        pid if pid > 0 => Ok(Side::Parent(Cloned {
            pid: pid as i32,
            // SAFETY: the kernel has put a descriptor of ours there.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
        })),
        _ => Err(last()),
    }
}

/// Clones this process without anything new.
pub(crate) fn fork() -> Result<Side> {
    clone(&CloneArgs::default())
}

/// Enters namespaces: those `kinds` (`CLONE_NEW…`) of the process behind a pidfd, or the one behind
/// a namespace's file. Whoever has one thread may enter any.
pub(crate) fn enter_namespaces(of: BorrowedFd<'_>, kinds: u64) -> Result<()> {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::setns(of.as_raw_fd(), kinds as i32) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Of which kind (`CLONE_NEW…`) a namespace's file is.
pub(crate) fn namespace_kind(file: BorrowedFd<'_>) -> Option<u64> {
    /// `NS_GET_NSTYPE` of `ioctl_ns(2)`.
    const NS_GET_NSTYPE: libc::Ioctl = 0xb703;
    // SAFETY: this ioctl takes no argument and answers by its result.
    let kind = unsafe { libc::ioctl(file.as_raw_fd(), NS_GET_NSTYPE, 0) };
    u64::try_from(kind).ok()
}

pub(super) fn last() -> Errno {
    // SAFETY: every thread has its errno.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}
