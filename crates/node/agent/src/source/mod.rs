//! Where manifests come from: a directory, a URL, the standard input, `orlop apply`.
//!
//! Each source is a task of its own that says all it has whenever that changes. A text that can no
//! longer be read keeps the pods that it last described, over restarts too: a slip of the pen ends
//! no pod.

mod directory;
mod last_good;
mod stdin;
mod store;
mod texts;
mod url;
mod watch;

use serde_json::Value;
use tokio::sync::mpsc;

use super::manifest::Remark;

pub(crate) use directory::directory;
pub(crate) use last_good::LastGood;
pub(crate) use stdin::stdin;
pub(crate) use store::{Outcome, Store, StoreError};
pub(crate) use texts::Texts;
pub(crate) use url::{UrlSource, url};

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

/// What a text of the largest size may come to when it is kept as JSON: each of its bytes may take six.
const LARGEST_KEPT: u64 = 64 << 20;

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
