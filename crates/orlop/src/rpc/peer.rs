//! Who calls: what a connection hands to each of its calls.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::unix::UCred;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Who reads an answer does so within this time.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

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
    /// So many of the calls have their answers, which it has not read to their ends.
    answered: usize,
    /// A call has ended then, or has got its answer.
    quiet_since: Instant,
}

/// How much it would miss its connection: the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It has never called since it came.
    Newcomer(Instant),
    /// It has called, and no call is in work since, or only such whose answers it has not read for [`PATIENCE`].
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
            answered: 0,
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
        Calling {
            asking: Arc::clone(&self.asking),
            is_answered: false,
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing_at(Instant::now())
    }

    fn standing_at(&self, now: Instant) -> Standing {
        let asking = self.asking.lock();
        if asking.newcomer.is_some() {
            return Standing::Newcomer(asking.quiet_since);
        }
        let is_quiet = match asking.calls {
            0 => true,
            calls if calls == asking.answered => {
                now.saturating_duration_since(asking.quiet_since) >= PATIENCE
            }
            _ => false,
        };
        if is_quiet {
            Standing::Quiet(asking.quiet_since)
        } else {
            Standing::Calling
        }
    }
}

/// A call of a peer's.
#[derive(Debug)]
pub(super) struct Calling {
    asking: Arc<Mutex<Asking>>,
    is_answered: bool,
}

impl Calling {
    /// All that is left to do is the peer's: to read the answer.
    pub(super) fn answered(mut self) -> Self {
        let mut asking = self.asking.lock();
        asking.answered += 1;
        asking.quiet_since = Instant::now();
        drop(asking);
        self.is_answered = true;
        self
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        let mut asking = self.asking.lock();
        asking.calls -= 1;
        asking.answered -= usize::from(self.is_answered);
        asking.quiet_since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;

    #[test]
    fn who_has_all_its_answers_and_reads_none_asks_for_nothing() {
        let peer = Peer::of(None, TaskTracker::new().token());
        let late = || Instant::now() + PATIENCE;
        let first = peer.calls().answered();
        assert_eq!(peer.standing(), Standing::Calling, "it has time to read");
        assert!(matches!(peer.standing_at(late()), Standing::Quiet(_)));
        let second = peer.calls();
        assert_eq!(peer.standing_at(late()), Standing::Calling);
        let second = second.answered();
        assert!(matches!(peer.standing_at(late()), Standing::Quiet(_)));
        let third = peer.calls();
        drop((first, second));
        assert_eq!(peer.standing_at(late()), Standing::Calling);
        drop(third);
        assert!(matches!(peer.standing(), Standing::Quiet(_)));
    }
}
