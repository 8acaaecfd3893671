//! How fast a body comes.

use std::time::Duration;

/// Watches one body. Only the time counts that was spent waiting for the registry: a slow disk is
/// not its fault.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes per second that must come on average.
    least: u64,
    /// Over which time.
    window: Duration,
    waited: Duration,
    bytes: u64,
}

impl Pace {
    pub(super) fn new(least: u64, window: Duration) -> Self {
        Self {
            least,
            window,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    /// Notes that so many bytes came after a wait. Says what is wrong if that is too slow.
    pub(super) fn note(&mut self, waited: Duration, bytes: usize) -> Option<String> {
        self.waited += waited;
        self.bytes += bytes as u64;
        if self.waited < self.window {
            return None;
        }
        let (bytes, seconds) = (self.bytes, self.waited.as_secs_f64());
        self.waited = Duration::ZERO;
        self.bytes = 0;
        let too_slow = (bytes as f64) < self.least as f64 * seconds;
        too_slow.then(|| {
            format!(
                "it sent {bytes} bytes in {seconds:.0} s, less than the {} bytes a second of \
                 images.min_speed",
                self.least
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_now_and_then_is_too_slow_and_an_even_stream_is_not() {
        let mut pace = Pace::new(1000, Duration::from_mins(1));
        for _ in 0..19 {
            assert_eq!(pace.note(Duration::from_secs(3), 1), None);
        }
        let reason = pace.note(Duration::from_secs(3), 1).unwrap();
        assert!(reason.contains("images.min_speed"), "{reason}");
        for _ in 0..100 {
            assert_eq!(pace.note(Duration::from_secs(3), 4000), None);
        }
        // Nothing is asked of a stream that is never waited for.
        for _ in 0..100 {
            assert_eq!(pace.note(Duration::ZERO, 1), None);
        }
    }
}
