//! Why a sync failed: the event, and when to retry.

use std::time::Duration;

use orlop_cri_api::client::ClientError;

/// What stopped a sync.
pub(super) struct Problem {
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) retry: Option<Duration>,
}

impl Problem {
    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            retry: None,
        }
    }
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        Self::new("FailedSync", format!("error determining status: {error}"))
    }
}
