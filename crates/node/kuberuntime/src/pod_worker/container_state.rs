//! The state of a container in the status of its pod.

use orlop_kubelet_rules::phase::ContainerView;
use orlop_kubelet_rules::waiting::WaitingReason;
use serde_json::{Value, json};

/// A container as the pod's status shows it.
pub(super) struct Shown {
    pub(super) json: Value,
    pub(super) view: ContainerView,
    pub(super) ready: bool,
    pub(super) restarts: u32,
    /// Why it is not running, in one word.
    pub(super) word: Option<String>,
}

/// Why a container is waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) reason: WaitingReason,
    pub(super) message: String,
}

impl Waiting {
    /// Returns the `waiting` state as JSON.
    pub(super) fn shown(&self) -> Value {
        json!({"waiting": {"reason": self.reason.word(), "message": self.message}})
    }
}
