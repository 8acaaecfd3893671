//! Waits for the end of a sandbox before containers that died with it are started again.

use std::time::Duration;

use super::PodActions;
use crate::Timestamp;
use crate::pod::{Container, Pod};
use crate::status::{ContainerState, ContainerStatus, PodStatus};

/// How long after a container's violent end it is waited for the end of its sandbox.
const SETTLES: Duration = Duration::from_secs(1);

/// Takes back the starts of containers that somebody has just killed, and answers when they are to be
/// looked at again.
///
/// Whoever stops a sandbox, or kills what it stands on, ends its containers first, and a runtime tells
/// of that at once. What is started in such a sandbox ends with it, and would count as a restart
/// beside the one in the next sandbox.
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

/// When it will be known what a container's end was part of, if it is not yet.
fn settles(newest: &ContainerStatus, now: Timestamp) -> Option<Timestamp> {
    // By a signal as shells count them, and what runtimes say of an end that nobody saw.
    let killed = matches!(newest.exit_code, 137 | 143 | 255) && newest.reason != "OOMKilled";
    if newest.state != ContainerState::Exited || !killed {
        return None;
    }
    let until = newest.finished_at?.after(SETTLES);
    // A clock that was set back keeps nobody waiting.
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
