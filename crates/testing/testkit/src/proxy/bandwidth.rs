//! Bandwidth limit shared by all connections.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Tolerated delay of a portion before the line counts as idle: timers are inexact.
const SLACK: Duration = Duration::from_millis(20);

/// A line with a number of bytes per second, or without a limit.
#[derive(Debug, Default)]
pub(super) struct Line(Mutex<Option<State>>);

#[derive(Debug)]
struct State {
    bytes_per_second: u64,
    /// Time when all queued bytes are sent.
    free: Instant,
}

impl Line {
    pub(super) fn set(&self, bytes_per_second: Option<u64>) {
        *self.lock() = bytes_per_second.map(|rate| State {
            bytes_per_second: rate.max(1),
            free: Instant::now(),
        });
    }

    /// Returns the bytes to send at once, those of 20 ms, so that other connections get their turn.
    pub(super) fn portion(&self) -> usize {
        let portion = |state: &State| (state.bytes_per_second / 50).clamp(1, 1 << 20) as usize;
        self.lock().as_ref().map_or(usize::MAX, portion)
    }

    /// Waits until this many bytes are sent.
    pub(super) async fn send(&self, bytes: usize) {
        let gone = {
            let mut state = self.lock();
            let Some(state) = state.as_mut() else {
                return;
            };
            let begin = state.free.max(Instant::now() - SLACK);
            let time = bytes as f64 / state.bytes_per_second as f64;
            state.free = begin + Duration::from_secs_f64(time);
            state.free
        };
        sleep_until(gone).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
