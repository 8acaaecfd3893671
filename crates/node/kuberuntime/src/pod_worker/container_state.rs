//! The state of a container in the status of its pod.

use orlop_kubelet_rules::phase::ContainerView;
use orlop_kubelet_rules::waiting::WaitingReason;
use serde_json::{Value, json};

/// One container as the pod's status shows it.
pub(super) struct Shown {
    pub(super) json: Value,
    pub(super) view: ContainerView,
    pub(super) ready: bool,
    pub(super) restarts: u32,
    /// Why it does not run, in a word.
    pub(super) word: Option<String>,
}

/// Why a container does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) reason: WaitingReason,
    pub(super) message: String,
}

impl Waiting {
    /// The state of a container that waits for it.
    pub(super) fn shown(&self) -> Value {
        json!({"waiting": {"reason": self.reason.word(), "message": self.message}})
    }
}
