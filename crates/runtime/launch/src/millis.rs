//! Limits of time in requests to a keeper.

use std::time::Duration;

/// A limit as the protocol carries it.
pub(crate) fn millis(limit: Duration) -> u32 {
    u32::try_from(limit.as_millis()).unwrap_or(u32::MAX)
}
