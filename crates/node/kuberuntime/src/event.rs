//! Changes and events that watchers receive.

use std::sync::Arc;

use orlop_kubelet_rules::Timestamp;
use tokio::sync::broadcast;

/// How many changes are queued for a slow watcher; a watcher that falls further behind is told how
/// many it missed.
pub(crate) const BACKLOG: usize = 1024;

/// A change that watchers receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A pod's view has changed: get it with [`crate::manager::Manager::pod`].
    Pod {
        /// The pod's uid.
        uid: String,
    },
    /// A pod and everything that belonged to it is gone.
    Gone {
        /// The pod's uid.
        uid: String,
    },
    /// An event of a pod, with the kubelet's reason and message.
    Event(Arc<Event>),
}

/// An event with the fields of a `v1.Event`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When it happened.
    pub time: Timestamp,
    /// Normal or a warning.
    pub severity: Severity,
    /// The kubelet's reason: `Pulling`, `Started`, `BackOff` …
    pub reason: &'static str,
    /// The message for people.
    pub message: String,
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The container that the event is about, if any.
    pub container: Option<String>,
}

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is wrong.
    Normal,
    /// Something is wrong.
    Warning,
}

/// The receiving side of a watch. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch(pub(crate) broadcast::Receiver<Change>);

impl Watch {
    /// Waits for the next change; `None` when the manager has ended. A watcher that is too slow
    /// gets `Some(Err(missed))` once and then continues.
    pub async fn next(&mut self) -> Option<Result<Change, u64>> {
        match self.0.recv().await {
            Ok(change) => Some(Ok(change)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Err(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
