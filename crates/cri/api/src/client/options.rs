//! The options of a client: timeouts, limits and observers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::observer::Observer;
use crate::server::MessageLimits;

/// Options of a client. The defaults are the kubelet's.
#[derive(Clone)]
pub struct ClientOptions {
    /// The default deadline of a call.
    pub timeout: Duration,
    /// The maximum size in bytes of a message, received or sent.
    pub max_message: usize,
    /// Whether to request lists as streams, until the runtime reports that it does not support them.
    pub streaming_lists: bool,
    /// Observer of each call.
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
