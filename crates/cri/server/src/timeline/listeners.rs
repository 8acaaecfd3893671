//! Listeners that are notified of finished calls.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::finished::{FinishedCall, FinishedCalls, Teller, Told, channel};
use super::sampling::{Sampling, Wanted};

/// The listeners of finished calls.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<Vec<Listener>>);

#[derive(Debug)]
struct Listener {
    tell: Teller,
    sampling: Arc<Sampling>,
}

impl Listeners {
    /// Adds a listener of the calls that `sampling` selects.
    pub(super) fn add(&self, sampling: Arc<Sampling>) -> FinishedCalls {
        let (tell, calls) = channel();
        self.lock().push(Listener { tell, sampling });
        calls
    }

    /// Whether no listener wants any call.
    pub(super) fn are_deaf(&self) -> bool {
        let listeners = self.lock();
        listeners.iter().all(|listener| listener.sampling.is_off())
    }

    pub(super) fn want(&self, call: Wanted) -> bool {
        let listeners = self.lock();
        let mut takes = listeners.iter().map(|listener| &listener.sampling);
        takes.any(|sampling| sampling.takes(call))
    }

    /// Sends a call to the listeners that select it; `false` if a queue was full.
    pub(super) fn tell(&self, wanted: Wanted, call: &FinishedCall) -> bool {
        let mut all = true;
        self.lock().retain(|listener| {
            if !listener.sampling.takes(wanted) {
                return true;
            }
            let told = listener.tell.tell(call);
            all &= told != Told::Lost;
            told != Told::Gone
        });
        all
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.0.lock()
    }
}
