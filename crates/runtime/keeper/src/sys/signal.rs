//! Signals: the end of a child becomes readable, requests to terminate are ignored.
//!
//! No signal is blocked or set to "ignore", because runtimes, and then containers, would inherit it. `execve` resets
//! handlers.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Signal;

/// The descriptor written to when a child has ended; never closed.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// Makes the end of a child readable on the returned descriptor, and makes the usual termination signals have no
/// effect.
pub(crate) fn install() -> io::Result<OwnedFd> {
    let readable = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    WAKE.store(readable.try_clone()?.into_raw_fd(), Ordering::Relaxed);
    for signal in 1..=libc::SIGRTMAX() {
        // Containers must not inherit signals that the daemon or its parent ignores. KILL and STOP refuse; SIGPIPE is
        // ignored by every Rust program and reset in its children.
        if signal != libc::SIGPIPE {
            let _ = handle(signal, libc::SIG_DFL);
        }
    }
    unblock_all()?;
    let wake: extern "C" fn(libc::c_int) = wake;
    let nothing: extern "C" fn(libc::c_int) = nothing;
    handle(libc::SIGCHLD, wake as libc::sighandler_t)?;
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        handle(signal, nothing as libc::sighandler_t)?;
    }
    Ok(readable)
}

/// Resets the SIGPIPE handling that every Rust program begins with: a write to a pipe without a reader ends the
/// process. Makes a system call only.
pub(crate) fn reset_pipe() {
    let _ = handle(libc::SIGPIPE, libc::SIG_DFL);
}

/// Blocks all signals, for a process that receives them with [`wait`].
pub(crate) fn block_all() -> io::Result<()> {
    mask(libc::SIG_SETMASK, |set| {
        // SAFETY: the set lives across the call.
        unsafe { libc::sigfillset(set) };
    })
}

/// Waits for one of the blocked signals.
pub(crate) fn wait() -> libc::c_int {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is made by sigfillset before it is read; no siginfo is asked for.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        libc::sigwaitinfo(set.as_ptr(), std::ptr::null_mut())
    }
}

/// Returns the signal with this number, including real-time signals.
pub(crate) fn by_number(number: u32) -> Option<Signal> {
    let number = i32::try_from(number).ok()?;
    // musl, with which a keeper may be linked, reserves the first real-time signal of containers for itself.
    if !(34..=64).contains(&number) {
        return Signal::from_named_raw(number);
    }
    // SAFETY: it is only sent to other processes, which define its meaning.
    Some(unsafe { Signal::from_raw_unchecked(number) })
}

fn unblock_all() -> io::Result<()> {
    mask(libc::SIG_SETMASK, |set| {
        // SAFETY: the set lives across the call.
        unsafe { libc::sigemptyset(set) };
    })
}

fn mask(how: libc::c_int, fill: impl FnOnce(*mut libc::sigset_t)) -> io::Result<()> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    fill(set.as_mut_ptr());
    // SAFETY: `fill` has made the set.
    let result = unsafe { libc::sigprocmask(how, set.as_ptr(), std::ptr::null_mut()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn handle(signal: libc::c_int, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all zeroes is a valid sigaction, with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART | libc::SA_NOCLDSTOP;
    // SAFETY: the handlers below do only what a handler may.
    let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

extern "C" fn nothing(_: libc::c_int) {}

extern "C" fn wake(_: libc::c_int) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: write may be called in a handler; errno is put back for whom it interrupts.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        libc::write(WAKE.load(Ordering::Relaxed), one.as_ptr().cast(), one.len());
        *errno = saved;
    }
}
