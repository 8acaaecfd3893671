//! Limits the number of layers that are unpacked at the same time.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// The turns that all pulls share.
#[derive(Debug)]
pub(crate) struct Turns {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A turn, until it is dropped. A layer that waits for bytes releases its turn.
#[derive(Debug)]
pub(crate) struct Turn(Arc<Turns>);

impl Turns {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::new(most.max(1)),
            freed: Condvar::new(),
        })
    }

    /// Waits for a turn. Blocks for the work of other layers, but never for the network.
    pub(crate) fn take(self: &Arc<Self>) -> Turn {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Turn(Arc::clone(self))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}
