//! Descriptors that are closed a moment later than they could be.
//!
//! Where a mount or a namespace of mounts ends with its descriptor, the kernel first waits until no processor can be
//! looking at it: a tenth of a millisecond and more, in which the keeper could answer.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// What is to be answered now is answered by then.
const DELAY: Duration = Duration::from_millis(20);

/// A container of many commands does not fill the table of descriptors.
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
