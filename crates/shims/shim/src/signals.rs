//! Signals, received by a waiting thread instead of handlers.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// The set of all signals.
pub(crate) struct All(libc::sigset_t);

impl All {
    /// Blocks all signals in this thread and in those that it spawns later.
    pub(crate) fn hold() -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigfillset` fills its argument, and the mask is read and not kept.
        let set = unsafe {
            libc::sigfillset(set.as_mut_ptr());
            let set = set.assume_init();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
            set
        };
        Self(set)
    }

    /// Waits for the next signal.
    pub(crate) fn next(&self) -> i32 {
        let mut signal = 0;
        // SAFETY: both pointers are valid during the call.
        while unsafe { libc::sigwait(&raw const self.0, &raw mut signal) } != 0 {}
        signal
    }
}
