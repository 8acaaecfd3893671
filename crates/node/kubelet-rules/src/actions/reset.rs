//! Containers whose exit asks for the whole pod to begin anew.

use super::Reset;
use crate::pod::{Container, Pod, RestartRuleAction};
use crate::restart::matching_rule;
use crate::status::{ContainerState, PodStatus};

/// The containers to remove when one's exit asks for all to begin anew; none if none does.
///
/// Those whose exit asked for it come last: as long as they are there, the wish is known, so that
/// whoever is interrupted half-way goes on next time.
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
