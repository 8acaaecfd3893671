//! Timestamps as the CRI counts them.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the nanoseconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the current time, but later than `earlier`, even if the clock was set back.
pub fn after(earlier: Option<i64>) -> i64 {
    let now = now();
    earlier.map_or(now, |earlier| now.max(earlier.saturating_add(1)))
}
