//! Test data for the tables of rules.

use crate::Timestamp;
use crate::hash::ContainerHash;
use crate::pod::Container;
use crate::status::{ContainerState, ContainerStatus, SandboxStatus};

/// Creates a container whose image has its name.
pub(crate) fn container(name: &str) -> Container {
    Container {
        name: name.to_owned(),
        image: format!("{name}:1"),
        ..Container::default()
    }
}

/// Creates an instance `<name>-id` of [`container`] in this state.
pub(crate) fn in_state(name: &str, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        id: format!("{name}-id"),
        name: name.to_owned(),
        state,
        created_at: Timestamp(1),
        hash: Some(ContainerHash::of(&container(name))),
        ..ContainerStatus::default()
    }
}

/// Creates an exited instance.
pub(crate) fn exited(name: &str, exit_code: i32) -> ContainerStatus {
    ContainerStatus {
        exit_code,
        finished_at: Some(Timestamp(2)),
        ..in_state(name, ContainerState::Exited)
    }
}

/// Creates a ready sandbox.
pub(crate) fn ready_sandbox() -> SandboxStatus {
    SandboxStatus {
        id: "sandbox".to_owned(),
        attempt: 0,
        ready: true,
        ips: Some(vec!["10.0.0.2".to_owned()]),
        ..SandboxStatus::default()
    }
}
