//! Times in the form that a page receives.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time in milliseconds since the epoch.
pub(crate) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as f64
}

/// Converts nanoseconds of the CRI to milliseconds; zero means never.
pub(crate) fn moment(nanos: i64) -> serde_json::Value {
    if nanos <= 0 {
        return serde_json::Value::Null;
    }
    (nanos as f64 / 1e6).into()
}
