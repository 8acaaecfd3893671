//! Creates the process of a container, directly in its namespaces and its cgroup.
#![allow(unsafe_code, reason = "clone3 and setns by pidfd are wrapped nowhere")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use orlop_process::processor::Here;
use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, set_parent_process_death_signal};

use super::process::{exit_now, pidfd_signal, wait_for};
use super::socket::{receive_with, send_with};

/// Settings of a new process.
#[derive(Debug, Default)]
pub(crate) struct CloneArgs<'a> {
    /// `CLONE_NEW…`.
    pub(crate) namespaces: u64,
    /// The v2 cgroup to create it in.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
    /// Whether it becomes a sibling of the caller instead of a child.
    pub(crate) sibling: bool,
    /// Whether it starts on the caller's processor and stays there until it releases that binding: for a caller that
    /// only waits for it.
    pub(crate) here: bool,
}

/// A new process.
#[derive(Debug)]
pub(crate) struct Cloned {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
}

/// The side of a clone.
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

/// Clones this process, which must have one thread: then the child may run any code.
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
        // The exit signal is then that of the parent.
        kernel.flags |= libc::CLONE_PARENT as u64;
        kernel.exit_signal = 0;
    }
    let here = args.here.then(Here::stay).flatten();
    // SAFETY: without CLONE_VM and a stack this is fork(2); the structure and the place of the
    // descriptor live across the call; this process has one thread (there is no other anywhere in
    // this program), so no inherited lock stays locked forever.
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

/// Clones this process through an intermediate one that `bring` moves into the target cgroup, if this process may not
/// clone into that. The new process is still a child of this one.
pub(crate) fn clone_away<E>(
    args: &CloneArgs<'_>,
    bring: impl FnOnce(i32) -> std::result::Result<(), E>,
) -> Result<std::result::Result<Side, E>> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let parent = rustix::process::getpid();
    let ferry = match fork()? {
        Side::Child => {
            drop(ours);
            return match ferry(args, parent, &theirs) {
                Ok(()) => Ok(Ok(Side::Child)),
                Err(errno) => {
                    let _ = rustix::io::write(&theirs, &errno.raw_os_error().to_ne_bytes());
                    exit_now(1)
                }
            };
        }
        Side::Parent(ferry) => ferry,
    };
    drop(theirs);
    let brought = bring(ferry.pid);
    let made = match &brought {
        Ok(()) => rustix::io::write(&ours, b"0").and_then(|_| receive_with(ours.as_fd())),
        Err(_) => Err(Errno::CANCELED),
    };
    if made.is_err() {
        let _ = pidfd_signal(ferry.pidfd.as_fd(), libc::SIGKILL);
    }
    let _ = wait_for(ferry.pid);
    if let Err(error) = brought {
        return Ok(Err(error));
    }
    match made? {
        // The reported PID may be from another PID namespace.
        (Some(pidfd), _) => {
            let pid = pid_behind(pidfd.as_fd())?;
            Ok(Ok(Side::Parent(Cloned { pid, pidfd })))
        }
        (None, told) => Err(told.first_chunk().map_or(Errno::CHILD, |told| {
            Errno::from_raw_os_error(i32::from_ne_bytes(*told))
        })),
    }
}

/// Waits until it is moved, and returns only in the process that it creates there.
fn ferry(args: &CloneArgs<'_>, parent: Pid, theirs: &OwnedFd) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // In a new PID namespace its parent has no PID.
    if rustix::process::getppid().is_some_and(|it| it != parent) {
        return Err(Errno::SRCH);
    }
    if rustix::io::read(theirs, &mut [0u8; 1])? == 0 {
        return Err(Errno::PIPE);
    }
    match clone(&CloneArgs {
        cgroup: None,
        sibling: true,
        here: false,
        ..*args
    })? {
        Side::Child => Ok(()),
        Side::Parent(made) => {
            let told = send_with(theirs.as_fd(), b"0", made.pidfd.as_fd());
            if told.is_err() {
                let _ = pidfd_signal(made.pidfd.as_fd(), libc::SIGKILL);
            }
            exit_now(i32::from(told.is_err()))
        }
    }
}

/// Returns the PID of the process behind a pidfd.
fn pid_behind(pidfd: BorrowedFd<'_>) -> Result<i32> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let told = orlop_fs::read_kernel_text(path).map_err(|_| Errno::SRCH)?;
    let pid = told.lines().find_map(|line| line.strip_prefix("Pid:"));
    let pid = pid.and_then(|pid| pid.trim().parse().ok());
    pid.filter(|pid| *pid > 0).ok_or(Errno::SRCH)
}

/// Clones this process without new namespaces.
pub(crate) fn fork() -> Result<Side> {
    clone(&CloneArgs::default())
}

/// Enters namespaces: the `kinds` (`CLONE_NEW…`) of the process behind a pidfd, or that of a namespace file. A
/// single-threaded process may enter any kind.
pub(crate) fn enter_namespaces(of: BorrowedFd<'_>, kinds: u64) -> Result<()> {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::setns(of.as_raw_fd(), kinds as i32) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Returns the kind (`CLONE_NEW…`) of a namespace file.
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
