//! What a keeper tells unasked.

use orlop_keeper_protocol::{Event, ExecExited, Exited, LogDropped, OomKilled};
use tokio::sync::mpsc;

/// Something happened in the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperEvent {
    /// A container has ended. Its exit record is on disk, its output in the log.
    Exited(Exited),
    /// An exec'd command has ended.
    ExecExited(ExecExited),
    /// The OOM killer struck in a container.
    OomKilled(OomKilled),
    /// A container's log lost output.
    LogDropped(LogDropped),
    /// The connection is lost: the keeper died, was shut down, or these events were not taken
    /// for too long. [`Keeper::connect`](crate::Keeper::connect) tells which.
    Gone,
}

impl From<Event> for KeeperEvent {
    fn from(event: Event) -> Self {
        match event {
            Event::Exited(event) => Self::Exited(event),
            Event::ExecExited(event) => Self::ExecExited(event),
            Event::OomKilled(event) => Self::OomKilled(event),
            Event::LogDropped(event) => Self::LogDropped(event),
        }
    }
}

/// The events of one keeper, in order. Dropping it makes the keeper's events be ignored.
#[derive(Debug)]
pub struct KeeperEvents {
    pub(super) queue: mpsc::Receiver<Event>,
}

impl KeeperEvents {
    /// The next event; [`KeeperEvent::Gone`] once and for all at the end. May be cancelled.
    pub async fn next(&mut self) -> KeeperEvent {
        match self.queue.recv().await {
            Some(event) => event.into(),
            None => KeeperEvent::Gone,
        }
    }
}
