//! Timestamps and their formats.

use std::time::Duration;

/// A timestamp as in the CRI: nanoseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Creates a timestamp from seconds since 1970.
    pub fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Returns the timestamp plus a duration.
    pub fn after(self, duration: Duration) -> Self {
        let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// Returns the time since `earlier`; zero if it is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Formats it as Kubernetes does: `2026-01-02T03:04:05Z`.
    pub fn rfc3339(self) -> String {
        jiff::Timestamp::from_second(self.0.div_euclid(1_000_000_000))
            .map(|t| t.to_string())
            .unwrap_or_default()
    }

    /// Formats it with nanoseconds.
    pub fn rfc3339_nano(self) -> String {
        jiff::Timestamp::from_nanosecond(i128::from(self.0))
            .map(|t| t.to_string())
            .unwrap_or_default()
    }
}
