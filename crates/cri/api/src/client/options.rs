//! The options of a client: timeouts, limits and observers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::observer::Observer;
use crate::server::MessageLimits;

/// How a client behaves. The defaults are the kubelet's.
#[derive(Clone)]
pub struct ClientOptions {
    /// What a call may take that has no rule of its own.
    pub timeout: Duration,
    /// The biggest message to take and to send, in bytes.
    pub max_message: usize,
    /// Ask for lists as streams, until the runtime says that it doesn't know them.
    pub streaming_lists: bool,
    /// Told about each call when it ends.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(2),
            max_message: MessageLimits::KUBELET,
            streaming_lists: true,
            observer: None,
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("timeout", &self.timeout)
            .field("max_message", &self.max_message)
            .field("streaming_lists", &self.streaming_lists)
            .finish_non_exhaustive()
    }
}
