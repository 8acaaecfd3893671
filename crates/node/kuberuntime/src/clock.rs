//! The node's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use orlop_kubelet_rules::Timestamp;

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp(i64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX))
}
