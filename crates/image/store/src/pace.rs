//! Enforces a minimum speed for data from and to untrusted peers.

use std::fmt;
use std::time::{Duration, Instant};

use tokio::time::timeout;

/// A watch over the speed of one stream. Only the time spent waiting for the peer counts, because a slow disk is not
/// the peer's fault.
#[derive(Debug)]
pub struct Pace {
    /// Minimum average speed in bytes per second.
    least: u64,
    /// Interval of the average; also the longest wait for the next bytes.
    window: Duration,
    waited: Duration,
    bytes: u64,
}

/// The reason why a stream was aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slow {
    /// No byte passed for this time.
    Silent(Duration),
    /// Too few bytes passed.
    Trickle {
        /// Number of bytes.
        bytes: u64,
        /// Measured interval.
        within: Duration,
        /// Required bytes per second.
        least: u64,
    },
}

impl Pace {
    pub(crate) fn new(least: u64, window: Duration) -> Self {
        Self {
            least,
            window,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    /// Waits for the peer's next step. `bytes` returns the number of bytes that it passed, or `None` for the last
    /// step.
    pub async fn wait<T>(
        &mut self,
        step: impl Future<Output = T>,
        bytes: impl FnOnce(&T) -> Option<usize>,
    ) -> Result<T, Slow> {
        let start = Instant::now();
        let done = timeout(self.window, step)
            .await
            .map_err(|_| Slow::Silent(self.window))?;
        match bytes(&done) {
            Some(bytes) => self.note(start.elapsed(), bytes).map(|()| done),
            None => Ok(done),
        }
    }

    fn note(&mut self, waited: Duration, bytes: usize) -> Result<(), Slow> {
        self.waited += waited;
        self.bytes += bytes as u64;
        if self.waited < self.window {
            return Ok(());
        }
        let (bytes, within, least) = (self.bytes, self.waited, self.least);
        self.waited = Duration::ZERO;
        self.bytes = 0;
        if (bytes as f64) < least as f64 * within.as_secs_f64() {
            return Err(Slow::Trickle {
                bytes,
                within,
                least,
            });
        }
        Ok(())
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(time) => {
                write!(f, "no data arrived for {time:?} (images.progress_timeout)")
            }
            Self::Trickle {
                bytes,
                within,
                least,
            } => write!(
                f,
                "{bytes} bytes arrived in {:.0} s, less than the {least} bytes per second of \
                 images.min_speed",
                within.as_secs_f64()
            ),
        }
    }
}

impl std::error::Error for Slow {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_now_and_then_is_too_slow_and_an_even_stream_is_not() {
        let mut pace = Pace::new(1000, Duration::from_mins(1));
        for _ in 0..19 {
            assert_eq!(pace.note(Duration::from_secs(3), 1), Ok(()));
        }
        let reason = pace.note(Duration::from_secs(3), 1).unwrap_err();
        let reason = reason.to_string();
        assert!(reason.contains("images.min_speed"), "{reason}");
        for _ in 0..100 {
            assert_eq!(pace.note(Duration::from_secs(3), 4000), Ok(()));
        }
        // A stream that never waits is never too slow.
        for _ in 0..100 {
            assert_eq!(pace.note(Duration::ZERO, 1), Ok(()));
        }
    }
}
