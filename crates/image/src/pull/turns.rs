//! Turns at the processor: so many layers are unpacked at once, of those whose bytes are there.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The turns that all pulls share.
#[derive(Debug)]
pub(crate) struct Turns {
    free: Mutex<usize>,
    freed: Condvar,
}

/// One of them, until it is dropped. Who waits for bytes gives it back meanwhile.
#[derive(Debug)]
pub(crate) struct Turn(Arc<Turns>);

impl Turns {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::new(most.max(1)),
            freed: Condvar::new(),
        })
    }

    /// Waits for a turn. Blocks, but for others' work only, never for the network.
    pub(crate) fn take(self: &Arc<Self>) -> Turn {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .freed
            .wait_while(free, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Turn(Arc::clone(self))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
