//! Signals, waited for by a thread instead of interrupting all others.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// All signals that can be waited for.
pub(crate) struct All(libc::sigset_t);

impl All {
    /// Holds all signals back, in this thread and those that it starts from here on.
    pub(crate) fn hold() -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigfillset` fills what it is given, and the mask is read and not kept.
        let set = unsafe {
            libc::sigfillset(set.as_mut_ptr());
            let set = set.assume_init();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
            set
        };
        Self(set)
    }

    /// The next signal.
    pub(crate) fn next(&self) -> i32 {
        let mut signal = 0;
        // SAFETY: both point to what lives here.
        while unsafe { libc::sigwait(&raw const self.0, &raw mut signal) } != 0 {}
        signal
    }
}
