//! Updates that watchers send to the hub.

use orlop_cri_api::v1::ContainerEventResponse;
use serde_json::Value;

/// An update from a watcher.
pub(super) enum News {
    /// An event of a container.
    Event(Box<ContainerEventResponse>),
    /// The endpoint has no event stream.
    NoEvents,
    /// The event stream ended, with the reason.
    EventsEnded(String),
    /// Running pulls, as the message for pages.
    Pulls(String),
    /// Findings of doctor.
    Findings(Value),
}
