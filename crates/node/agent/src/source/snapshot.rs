//! A snapshot of the pods of a source, and the channel to its receiver.

use serde_json::Value;
use tokio::sync::mpsc;

use crate::manifest::Remark;

/// All that a source has to say at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// The pods, with their identities.
    pub(crate) pods: Vec<SourcePod>,
    /// What the pods take values from.
    pub(crate) objects: Vec<Value>,
    /// What is wrong.
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
    /// The line in it.
    pub(crate) line: usize,
}

/// What a source says, with its place among the sources.
pub(crate) type Update = (usize, Snapshot);

/// Sources wait here for the agent; there are only ever a few.
pub(crate) const UPDATES: usize = 8;

/// Where a source speaks to.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    pub(crate) place: usize,
    pub(crate) updates: mpsc::Sender<Update>,
}

impl Outlet {
    /// Says it; `false` if nobody listens any more.
    pub(crate) async fn say(&self, snapshot: Snapshot) -> bool {
        self.updates.send((self.place, snapshot)).await.is_ok()
    }
}
