//! Health state of the daemon: whether it answers calls.

use std::sync::atomic::{AtomicU8, Ordering};

/// Phase in the life of the daemon.
#[derive(Debug, Default)]
pub(crate) struct Health(AtomicU8);

const STARTING: u8 = 0;
const SERVING: u8 = 1;
const STOPPING: u8 = 2;

impl Health {
    pub(crate) fn serving(&self) {
        self.0.store(SERVING, Ordering::Relaxed);
    }

    pub(crate) fn stopping(&self) {
        self.0.store(STOPPING, Ordering::Relaxed);
    }

    /// Returns an error with the reason if calls are not answered.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match self.0.load(Ordering::Relaxed) {
            STARTING => Err("starting"),
            SERVING => Ok(()),
            _ => Err("stopping"),
        }
    }
}
