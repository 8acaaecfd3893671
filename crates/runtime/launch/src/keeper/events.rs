//! Events that a keeper sends.

use orlop_keeper_protocol::{Event, ExecExited, Exited, LogDropped, OomKilled};
use tokio::sync::mpsc;

/// An event in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperEvent {
    /// A container has ended. Its exit record is on disk, and its output in the log.
    Exited(Exited),
    /// An exec command has ended.
    ExecExited(ExecExited),
    /// The OOM killer killed a process in a container.
    OomKilled(OomKilled),
    /// A container's log lost output.
    LogDropped(LogDropped),
    /// The connection is lost: the keeper has exited, or these events were not read for too long.
    /// [`Keeper::connect`](crate::Keeper::connect) tells which.
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

/// The ordered events of one keeper. If it is dropped, further events are ignored.
#[derive(Debug)]
pub struct KeeperEvents {
    pub(super) queue: mpsc::Receiver<Event>,
}

impl KeeperEvents {
    /// Waits for the next event; always returns [`KeeperEvent::Gone`] at the end. Cancel safe.
    pub async fn next(&mut self) -> KeeperEvent {
        match self.queue.recv().await {
            Some(event) => event.into(),
            None => KeeperEvent::Gone,
        }
    }
}
