//! Containers whose exit restarts all containers of the pod.

use super::Reset;
use crate::pod::{Container, Pod, RestartRuleAction};
use crate::restart::matching_rule;
use crate::status::{ContainerState, PodStatus};

/// Returns the containers to remove if the exit code of one requires a restart of all; empty if
/// none does.
///
/// The containers that require it come last. While they exist, an interrupted reset can continue.
pub(super) fn containers_to_reset(pod: &Pod, status: &PodStatus) -> Vec<Reset> {
    let asks = |container: &Container| {
        status.newest(&container.name).is_some_and(|s| {
            s.state == ContainerState::Exited
                && matching_rule(container, s.exit_code)
                    == Some(RestartRuleAction::RestartAllContainers)
        })
    };
    if pod.is_being_deleted() || !pod.spec.init_and_regular().any(asks) {
        return Vec::new();
    }
    let lists = [
        (&pod.spec.containers, false),
        (&pod.spec.init_containers, false),
        (&pod.spec.containers, true),
        (&pod.spec.init_containers, true),
    ];
    lists
        .into_iter()
        .flat_map(|(list, asking)| list.iter().filter(move |c| asks(c) == asking))
        .filter_map(|c| status.newest(&c.name))
        .map(|s| Reset {
            id: s.id.clone(),
            name: s.name.clone(),
        })
        .collect()
}
