//! Who calls: what a connection hands to each of its calls.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::unix::UCred;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    credentials: Option<UCred>,
    newcomer: Arc<Mutex<Option<TaskTrackerToken>>>,
}

impl Peer {
    /// A peer that has not called yet: until it does, or leaves, it holds the token.
    pub(crate) fn new(credentials: Option<UCred>, newcomer: TaskTrackerToken) -> Self {
        Self {
            credentials,
            newcomer: Arc::new(Mutex::new(Some(newcomer))),
        }
    }

    /// Of a process of this machine.
    pub(super) fn credentials(&self) -> Option<UCred> {
        self.credentials
    }

    /// The process of this machine that it is.
    pub(super) fn process(&self) -> Option<u32> {
        let process = self.credentials?.pid()?;
        // Zero is one of another PID namespace.
        u32::try_from(process).ok().filter(|process| *process > 0)
    }

    /// It has called.
    pub(super) fn has_called(&self) {
        self.newcomer.lock().take();
    }
}
