//! Time of the last progress on a connection, for its idle timeout.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The time of the last progress on a connection; any task can update it cheaply.
pub(crate) struct Activity {
    since: Instant,
    last_millis: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            last_millis: AtomicU64::new(0),
        }
    }

    pub(crate) fn touch(&self) {
        self.last_millis
            .store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Completes after no progress for `timeout`. Sleeps instead of polling.
    pub(crate) async fn idle_for(&self, timeout: Duration) {
        loop {
            let last = Duration::from_millis(self.last_millis.load(Ordering::Relaxed));
            let deadline = self.since + last + timeout;
            if Instant::now() >= deadline {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}
