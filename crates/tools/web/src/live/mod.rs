//! The node as it changes: one sampler for all pages, which runs while one is open.
//!
//! | module | what it holds |
//! |---|---|
//! | `hub` | who listens, and what they are told first |
//! | `sampler` | one after the other: the endpoint is there, is looked at, is gone |
//! | `hello` | what the endpoint is and can tell |
//! | `pods` | the list of pods, `owner` of them; `late`: which of them the endpoint takes too long to tell of |
//! | `usage`, `machine`, `history` | what pods use, what the machine does, what it was before |
//! | `changes`, `pulls`, `findings` | what comes by itself: events, pulls, what doctor finds |

mod changes;
mod findings;
mod hello;
mod history;
mod hub;
mod late;
mod machine;
mod owner;
mod pods;
mod pulls;
mod sampler;
mod usage;

pub(crate) use hub::Hub;
pub(crate) use machine::capacity;
pub(crate) use pods::{Network, container_json, pod_json};

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch.
pub(crate) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as f64
}

/// The same of nanoseconds as the CRI has them; zero is never.
pub(crate) fn moment(nanos: i64) -> serde_json::Value {
    if nanos <= 0 {
        return serde_json::Value::Null;
    }
    (nanos as f64 / 1e6).into()
}
