//! Rate limit of image pulls, with bursts.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A rate limit with bursts. Requests that exceed it wait in order of arrival.
#[derive(Debug)]
pub(super) struct RateLimit {
    per_second: f64,
    burst: f64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Tokens available now; negative if requests are waiting.
    tokens: f64,
    at: Instant,
}

impl RateLimit {
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            per_second: f64::from(per_second),
            burst,
            state: Mutex::new(State {
                tokens: burst,
                at: Instant::now(),
            }),
        }
    }

    pub(super) async fn turn(&self) {
        let wait = self.take();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn take(&self) -> Duration {
        if self.per_second == 0.0 {
            return Duration::ZERO;
        }
        let mut state = self.state.lock();
        let now = Instant::now();
        let gained = now.duration_since(state.at).as_secs_f64() * self.per_second;
        state.tokens = (state.tokens + gained).min(self.burst) - 1.0;
        state.at = now;
        Duration::try_from_secs_f64((-state.tokens).max(0.0) / self.per_second).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_at_once_and_then_one_after_the_other() {
        let limit = RateLimit::new(20, 2);
        let waits: Vec<_> = (0..4).map(|_| limit.take().as_millis()).collect();
        assert_eq!(waits[..2], [0, 0]);
        assert!(
            (40..=50).contains(&waits[2]) && (90..=100).contains(&waits[3]),
            "{waits:?}"
        );
        RateLimit::new(0, 0).turn().await;
    }
}
