//! Signals: children's deaths become readable, requests to end are ignored.
//!
//! Nothing is blocked and nothing set to "ignore", since the runtimes, and the containers after
//! them, would inherit it; handlers are reset by `execve`.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Signal;

/// Written to when a child has ended; never closed.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// Makes the deaths of children readable on the returned descriptor, and the usual requests to
/// end have no effect.
pub(crate) fn install() -> io::Result<OwnedFd> {
    let readable = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    WAKE.store(readable.try_clone()?.into_raw_fd(), Ordering::Relaxed);
    for signal in 1..=libc::SIGRTMAX() {
        // What the daemon, or whoever started it, ignores is not the containers' business. KILL
        // and STOP refuse, SIGPIPE is ignored by every Rust program and reset in its children.
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

/// Undoes what every Rust program begins with: what is written to a pipe that nobody reads ends a process.
/// Makes a system call only.
pub(crate) fn reset_pipe() {
    let _ = handle(libc::SIGPIPE, libc::SIG_DFL);
}

/// Blocks all signals, for a process that takes them with [`wait`].
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

/// A signal by its number, real-time ones included.
pub(crate) fn by_number(number: u32) -> Option<Signal> {
    let number = i32::try_from(number).ok()?;
    // The first one of containers is none to musl, with which a keeper may be linked.
    if !(34..=64).contains(&number) {
        return Signal::from_named_raw(number);
    }
    // SAFETY: it is sent to other processes only, in which it means what they will.
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
