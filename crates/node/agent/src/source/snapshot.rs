//! A snapshot of the pods of a source, and the channel to its receiver.

use serde_json::Value;
use tokio::sync::mpsc;

use crate::manifest::Remark;

/// The complete content of a source at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// The pods, with their identities.
    pub(crate) pods: Vec<SourcePod>,
    /// The objects that pods refer to.
    pub(crate) objects: Vec<Value>,
    /// Errors and warnings.
    pub(crate) remarks: Vec<Remark>,
}

/// A pod of a source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SourcePod {
    /// The manifest.
    pub(crate) manifest: Value,
    /// The kubelet's word for the kind of source.
    pub(crate) kind: &'static str,
    /// The file or URL.
    pub(crate) origin: String,
    /// The line number.
    pub(crate) line: usize,
}

/// A snapshot, with the index of its source.
pub(crate) type Update = (usize, Snapshot);

/// Capacity of the channel from the sources to the agent.
pub(crate) const UPDATES: usize = 8;

/// The sending side of a source.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    pub(crate) place: usize,
    pub(crate) updates: mpsc::Sender<Update>,
}

impl Outlet {
    /// Sends a snapshot; `false` if the receiver is gone.
    pub(crate) async fn say(&self, snapshot: Snapshot) -> bool {
        self.updates.send((self.place, snapshot)).await.is_ok()
    }
}
