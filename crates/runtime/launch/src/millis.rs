//! Time limits in requests to a keeper.

use std::time::Duration;

/// Converts a time limit to the protocol's milliseconds.
pub(crate) fn millis(limit: Duration) -> u32 {
    u32::try_from(limit.as_millis()).unwrap_or(u32::MAX)
}
