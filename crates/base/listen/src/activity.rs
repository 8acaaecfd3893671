//! The requests of a connection. The listener may close a connection without a request in progress in favor of another
//! one.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Time that a client has to read a response.
pub const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The requests of one connection. Clones belong to the same connection.
///
/// ```text
///  New ──request──► Busy ──answer read, or READ_TIMEOUT──► Idle ──request──► Busy …
///   └──────────────────────────────┬─────────────────────────┘
///                                  └─ may be closed for another connection
/// ```
#[derive(Clone, Debug)]
pub struct Activity {
    state: Arc<Mutex<State>>,
    closing: CancellationToken,
}

#[derive(Debug)]
struct State {
    /// Held until the first request.
    newcomer: Option<TaskTrackerToken>,
    requests: usize,
    /// Requests whose response is complete but not read completely.
    answered: usize,
    /// When the last request ended or was answered; before the first request, when the connection was accepted.
    since: Instant,
}

/// Whether a connection may be closed in favor of another one: the first in this order is closed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It was accepted at this time and has sent no request.
    New(Instant),
    /// It has sent requests. The last one ended at this time.
    Idle(Instant),
    /// A request is in progress.
    Busy,
}

impl Activity {
    /// Returns a connection without requests. The token is dropped with the first request, or with the connection.
    pub fn new(newcomer: TaskTrackerToken) -> Self {
        let state = State {
            newcomer: Some(newcomer),
            requests: 0,
            answered: 0,
            since: Instant::now(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            closing: CancellationToken::new(),
        }
    }

    /// Registers a request, which is in progress until the result is dropped.
    pub fn request(&self) -> InProgress {
        let mut state = self.state.lock();
        state.newcomer = None;
        state.requests += 1;
        InProgress {
            state: Arc::clone(&self.state),
            is_answered: false,
        }
    }

    /// Requests that the connection is closed.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Completes when the connection must be closed.
    pub fn closed(&self) -> WaitForCancellationFutureOwned {
        self.closing.clone().cancelled_owned()
    }

    /// Returns whether the connection must be closed.
    pub fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Completes when the connection must be closed, or has sent no request within the limit.
    pub(crate) async fn closed_or_silent(&self, limit: Duration) {
        if timeout(limit, self.closing.cancelled()).await.is_err() {
            if matches!(self.standing(), Standing::New(_)) {
                tracing::debug!("closing a connection: no request within {limit:?}");
                return;
            }
            self.closing.cancelled().await;
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing_at(Instant::now())
    }

    fn standing_at(&self, now: Instant) -> Standing {
        let state = self.state.lock();
        if state.newcomer.is_some() {
            return Standing::New(state.since);
        }
        let is_idle = match state.requests {
            0 => true,
            requests if requests == state.answered => {
                now.saturating_duration_since(state.since) >= READ_TIMEOUT
            }
            _ => false,
        };
        if is_idle {
            Standing::Idle(state.since)
        } else {
            Standing::Busy
        }
    }
}

/// A request in progress.
#[derive(Debug)]
pub struct InProgress {
    state: Arc<Mutex<State>>,
    is_answered: bool,
}

impl InProgress {
    /// Marks the response as complete: the client only has to read it.
    pub fn answered(mut self) -> Self {
        let mut state = self.state.lock();
        state.answered += 1;
        state.since = Instant::now();
        drop(state);
        self.is_answered = true;
        self
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.requests -= 1;
        state.answered -= usize::from(self.is_answered);
        state.since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;

    #[test]
    fn who_has_all_its_answers_and_reads_none_asks_for_nothing() {
        let activity = Activity::new(TaskTracker::new().token());
        assert!(matches!(activity.standing(), Standing::New(_)));
        let late = || Instant::now() + READ_TIMEOUT;
        let first = activity.request().answered();
        assert_eq!(activity.standing(), Standing::Busy, "it has time to read");
        assert!(matches!(activity.standing_at(late()), Standing::Idle(_)));
        let second = activity.request();
        assert_eq!(activity.standing_at(late()), Standing::Busy);
        let second = second.answered();
        assert!(matches!(activity.standing_at(late()), Standing::Idle(_)));
        let third = activity.request();
        drop((first, second));
        assert_eq!(activity.standing_at(late()), Standing::Busy);
        drop(third);
        assert!(matches!(activity.standing(), Standing::Idle(_)));
    }
}
