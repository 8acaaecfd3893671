//! Descriptors whose closing is delayed.
//!
//! If closing a descriptor ends a mount or a mount namespace, the kernel first waits until no processor can be using
//! it. That takes a tenth of a millisecond and more, in which the keeper could reply.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Long enough for pending replies to be sent first.
const DELAY: Duration = Duration::from_millis(20);

/// Limits the descriptors held if a container runs many commands.
const MOST: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Closing {
    waiting: Vec<OwnedFd>,
    due: Option<Instant>,
}

impl Closing {
    pub(crate) fn later(&mut self, descriptor: Option<OwnedFd>) {
        if let Some(descriptor) = descriptor
            && self.waiting.len() < MOST
        {
            self.waiting.push(descriptor);
            self.due.get_or_insert_with(|| Instant::now() + DELAY);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn close_due(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.waiting = Vec::new();
            self.due = None;
        }
    }
}
