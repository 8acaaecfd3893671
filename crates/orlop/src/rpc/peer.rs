//! Who calls: what a connection hands to each of its calls.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::unix::UCred;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    credentials: Option<UCred>,
    process: Option<u32>,
    asking: Arc<Mutex<Asking>>,
    leaving: CancellationToken,
}

/// What it asks for.
#[derive(Debug)]
struct Asking {
    newcomer: Option<TaskTrackerToken>,
    calls: usize,
    quiet_since: Instant,
}

/// How much it would miss its connection: the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It has never called since it came.
    Newcomer(Instant),
    /// It has called, and no call is in work since.
    Quiet(Instant),
    /// A call is in work.
    Calling,
}

impl Peer {
    /// A peer that has not called yet: until it does, or leaves, it holds the token.
    pub(crate) fn new(credentials: Option<UCred>, newcomer: TaskTrackerToken) -> Self {
        // Zero is one of another PID namespace.
        let process = credentials
            .and_then(|it| u32::try_from(it.pid()?).ok())
            .filter(|process| *process > 0);
        Self {
            credentials,
            ..Self::of(process, newcomer)
        }
    }

    /// The same of a process.
    pub(crate) fn of(process: Option<u32>, newcomer: TaskTrackerToken) -> Self {
        let asking = Asking {
            newcomer: Some(newcomer),
            calls: 0,
            quiet_since: Instant::now(),
        };
        Self {
            credentials: None,
            process,
            asking: Arc::new(Mutex::new(asking)),
            leaving: CancellationToken::new(),
        }
    }

    /// Of a process of this machine.
    pub(super) fn credentials(&self) -> Option<UCred> {
        self.credentials
    }

    /// The process of this machine that it is.
    pub(crate) fn process(&self) -> Option<u32> {
        self.process
    }

    /// Has its connection closed.
    pub(crate) fn leave(&self) {
        self.leaving.cancel();
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_cancelled()
    }

    /// Until its connection is to be closed.
    pub(crate) fn left(&self) -> WaitForCancellationFutureOwned {
        self.leaving.clone().cancelled_owned()
    }

    /// It calls, until this is dropped.
    pub(super) fn calls(&self) -> Calling {
        let mut asking = self.asking.lock();
        asking.newcomer = None;
        asking.calls += 1;
        Calling(Arc::clone(&self.asking))
    }

    pub(crate) fn standing(&self) -> Standing {
        let asking = self.asking.lock();
        match (&asking.newcomer, asking.calls) {
            (Some(_), _) => Standing::Newcomer(asking.quiet_since),
            (None, 0) => Standing::Quiet(asking.quiet_since),
            (None, _) => Standing::Calling,
        }
    }
}

/// A call of a peer's.
#[derive(Debug)]
pub(super) struct Calling(Arc<Mutex<Asking>>);

impl Drop for Calling {
    fn drop(&mut self) {
        let mut asking = self.0.lock();
        asking.calls -= 1;
        asking.quiet_since = Instant::now();
    }
}
