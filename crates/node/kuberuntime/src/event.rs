//! What watchers are told.

use std::sync::Arc;

use orlop_kubelet_rules::Timestamp;
use tokio::sync::broadcast;

/// How many changes may wait for a slow watcher; one that falls further behind is told so.
pub(crate) const BACKLOG: usize = 1024;

/// Something that watchers are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A pod's view is another one: ask [`crate::manager::Manager::pod`].
    Pod {
        /// The pod.
        uid: String,
    },
    /// A pod is gone with all that was of it.
    Gone {
        /// The pod.
        uid: String,
    },
    /// Something happened to a pod, in the kubelet's words.
    Event(Arc<Event>),
}

/// What happened, as a `v1.Event` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time: Timestamp,
    /// Whether it is bad news.
    pub severity: Severity,
    /// The kubelet's word: `Pulling`, `Started`, `BackOff` …
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
    /// The pod's uid.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The container that it is about, if it is about one.
    pub container: Option<String>,
}

/// Whether an event is bad news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Something is wrong.
    Warning,
}

/// A watcher's end. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch(pub(crate) broadcast::Receiver<Change>);

impl Watch {
    /// The next change; `None` when the manager has ended. A watcher that was too slow gets
    /// `Some(Err(missed))` once and goes on from there.
    pub async fn next(&mut self) -> Option<Result<Change, u64>> {
        match self.0.recv().await {
            Ok(change) => Some(Ok(change)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Err(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
