//! Delays the restart of containers that may have ended because their sandbox is being stopped.

use std::time::Duration;

use super::PodActions;
use crate::Timestamp;
use crate::pod::{Container, Pod};
use crate::status::{ContainerState, ContainerStatus, PodStatus};

/// How long to wait for the end of the sandbox after a container was killed.
const SETTLES: Duration = Duration::from_secs(1);

/// Removes the starts of containers that were just killed, and returns when to check again.
///
/// A runtime that stops a sandbox ends its containers first, and reports that at once. A container
/// started in this sandbox would end with it, and would count as an additional restart.
pub fn hold_back(
    pod: &Pod,
    status: &PodStatus,
    actions: &mut PodActions,
    now: Timestamp,
) -> Option<Timestamp> {
    if actions.create_sandbox {
        return None;
    }
    let mut again: Option<Timestamp> = None;
    let mut goes = |container: &Container| {
        let newest = status.newest(&container.name);
        let until = newest.and_then(|newest| settles(newest, now));
        again = again.max(until);
        until.is_none()
    };
    let spec = &pod.spec;
    let starts = &mut actions.init_containers_to_start;
    starts.retain(|index| goes(&spec.init_containers[*index]));
    let starts = &mut actions.containers_to_start;
    starts.retain(|index| goes(&spec.containers[*index]));
    again
}

/// Returns when the cause of a container's end will be known, if it is not known yet.
fn settles(newest: &ContainerStatus, now: Timestamp) -> Option<Timestamp> {
    // Exit codes of SIGKILL and SIGTERM in shell notation, and the code of an end that the runtime
    // did not observe.
    let killed = matches!(newest.exit_code, 137 | 143 | 255) && newest.reason != "OOMKilled";
    if newest.state != ContainerState::Exited || !killed {
        return None;
    }
    let until = newest.finished_at?.after(SETTLES);
    // If the clock was set back, nothing waits.
    (now < until && until <= now.after(SETTLES)).then_some(until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::container;

    #[test]
    fn what_was_just_killed_waits_a_second_for_its_sandbox() {
        let mut pod = Pod::default();
        pod.spec.init_containers = vec![container("side")];
        pod.spec.containers = vec![container("main"), container("other")];
        let ended = |name: &str, exit_code, reason: &str, finished: i64| ContainerStatus {
            name: name.to_owned(),
            state: ContainerState::Exited,
            exit_code,
            reason: reason.to_owned(),
            finished_at: Some(Timestamp(finished)),
            ..ContainerStatus::default()
        };
        const SECOND: i64 = 1_000_000_000;
        let now = Timestamp(10 * SECOND);
        let just = 10 * SECOND - 300;
        for (code, reason, finished, held) in [
            (137, "Error", just, true),
            (143, "Error", just, true),
            (255, "Unknown", just, true),
            (137, "Error", 9 * SECOND, false),
            (137, "Error", 11 * SECOND, false),
            (137, "OOMKilled", just, false),
            (1, "Error", just, false),
            (0, "Completed", just, false),
        ] {
            let status = PodStatus::new(
                Vec::new(),
                vec![
                    ended("side", code, reason, finished),
                    ended("main", code, reason, finished),
                    ended("other", 1, "Error", just),
                ],
            );
            let mut actions = PodActions {
                init_containers_to_start: vec![0],
                containers_to_start: vec![0, 1],
                ..PodActions::default()
            };
            let again = hold_back(&pod, &status, &mut actions, now);
            let case = format!("{code} {reason} {finished}");
            let until = held.then(|| Timestamp(finished + SECOND));
            assert_eq!(again, until, "{case}");
            let starts = (
                actions.init_containers_to_start.len(),
                actions.containers_to_start.len(),
            );
            assert_eq!(starts, if held { (0, 1) } else { (1, 2) }, "{case}");

            actions.create_sandbox = true;
            actions.containers_to_start = vec![0];
            assert_eq!(hold_back(&pod, &status, &mut actions, now), None, "{case}");
            assert_eq!(actions.containers_to_start, [0], "{case}");
        }
    }
}
