//! Updates that watchers send to the hub.

use orlop_cri_api::v1::ContainerEventResponse;
use serde_json::Value;

/// What came by itself.
pub(super) enum News {
    /// Something happened to a container.
    Event(Box<ContainerEventResponse>),
    /// The endpoint sends none.
    NoEvents,
    /// It has stopped sending them, and why.
    EventsEnded(String),
    /// What is pulled, as it is told.
    Pulls(String),
    /// What doctor found.
    Findings(Value),
}
