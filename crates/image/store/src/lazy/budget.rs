//! The bandwidth limit of downloads that no reader waits for.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Bytes per second.
pub(super) struct Budget {
    per_second: u64,
    /// The earliest time of the next download.
    next: Mutex<Option<Instant>>,
}

impl Budget {
    pub(super) fn new(per_second: u64) -> Self {
        Self {
            per_second,
            next: Mutex::default(),
        }
    }

    /// Charges downloaded bytes to the budget.
    pub(super) fn spend(&self, bytes: u64) {
        if self.per_second == 0 {
            return;
        }
        let takes = Duration::from_secs_f64(bytes as f64 / self.per_second as f64);
        let now = Instant::now();
        let mut next = self.next.lock();
        *next = Some(next.unwrap_or(now).max(now) + takes);
    }

    /// Waits until the budget allows the next download.
    pub(super) async fn wait(&self) {
        let next = *self.next.lock();
        if let Some(next) = next {
            tokio::time::sleep_until(next).await;
        }
    }
}
