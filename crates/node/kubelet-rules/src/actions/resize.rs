//! Decides how a running container is resized.

use super::{Observed, Resize};
use crate::pod::{Container, ResizeRestartPolicy, Resources};
use crate::status::ContainerStatus;

/// How a running container is resized.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResizePlan {
    /// Its resources have not changed.
    Keep,
    /// Resize it while it runs.
    InPlace(Resize),
    /// Restart it with the new resources.
    Restart,
}

/// Compares the requested resources of a running container with those it was last given. Without a
/// record, nothing changes.
pub(super) fn plan_resize(
    container: &Container,
    running: &ContainerStatus,
    observed: &Observed,
) -> ResizePlan {
    let Some(given) = observed.actuated.get(&container.name) else {
        return ResizePlan::Keep;
    };
    let cpu = differs(&container.resources, given, "cpu");
    let memory = differs(&container.resources, given, "memory");
    if !cpu && !memory {
        return ResizePlan::Keep;
    }
    if (cpu && restarts_for(container, "cpu")) || (memory && restarts_for(container, "memory")) {
        return ResizePlan::Restart;
    }
    ResizePlan::InPlace(Resize {
        id: running.id.clone(),
        name: container.name.clone(),
        cpu,
        memory,
    })
}

fn differs(wanted: &Resources, given: &Resources, name: &str) -> bool {
    wanted.limit(name) != given.limit(name) || wanted.request(name) != given.request(name)
}

fn restarts_for(container: &Container, name: &str) -> bool {
    container.resize_policy.iter().any(|policy| {
        policy.resource_name == name
            && policy.restart_policy == ResizeRestartPolicy::RestartContainer
    })
}
