//! Converts an entry of the container list into the fields of an event.

use std::collections::BTreeMap;

use crate::docker::types::ContainerSummary;

/// Labels and other attributes, as in the engine's events.
pub(crate) type Attributes = BTreeMap<String, String>;

/// The stage of a container's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Created,
    Running,
    Ended,
}

impl Stage {
    pub(crate) fn of(listed: &ContainerSummary) -> Self {
        match listed.state.as_str() {
            "created" => Self::Created,
            "running" | "paused" | "restarting" => Self::Running,
            _ => Self::Ended,
        }
    }
}

/// Returns a container's attributes as in the engine's events.
pub(crate) fn attributes(listed: &ContainerSummary) -> Attributes {
    let mut attributes = listed.labels.clone();
    // An image may have a label of this name.
    attributes.remove("name");
    if let Some(name) = listed.names.first() {
        let name = name.trim_start_matches('/').to_owned();
        attributes.insert("name".into(), name);
    }
    attributes
}
