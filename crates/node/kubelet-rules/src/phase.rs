//! Pod phases.

use std::collections::BTreeMap;

use crate::pod::{Pod, RestartPolicy};
use crate::restart::container_should_restart;

/// The phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    /// Not all containers have been started.
    Pending,
    /// All containers have been started, and some run or will restart.
    Running,
    /// All containers have succeeded.
    Succeeded,
    /// All containers have ended, and some have failed.
    Failed,
}

/// The state of a container in the pod's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerView {
    /// Not running, but about to start.
    Waiting {
        /// The exit code of its last instance.
        last_exit: Option<i32>,
    },
    /// Running.
    Running {
        /// Whether its startup probe has succeeded (or it has none).
        started: bool,
    },
    /// Ended.
    Terminated {
        /// Its exit code.
        exit_code: i32,
    },
}

/// Derives a pod's phase from its containers by name. `finished` means that the pod was ended
/// (evicted, past its deadline), whatever its restart policy.
pub fn pod_phase(pod: &Pod, views: &BTreeMap<String, ContainerView>, finished: bool) -> PodPhase {
    let regular = Tally::of(pod, views);
    match initialization(pod, views, &regular) {
        Initialization::Failed => return PodPhase::Failed,
        Initialization::Pending => return PodPhase::Pending,
        Initialization::Done => {}
    }
    if regular.waiting > 0 {
        return PodPhase::Pending;
    }
    if regular.unknown > 0 {
        return PodPhase::Pending;
    }
    if regular.running > 0 {
        return PodPhase::Running;
    }
    if regular.stopped == 0 {
        return PodPhase::Pending;
    }
    if regular.coming_back && !finished {
        return PodPhase::Running;
    }
    if regular.stopped == regular.succeeded {
        PodPhase::Succeeded
    } else {
        PodPhase::Failed
    }
}

enum Initialization {
    Pending,
    Done,
    Failed,
}

fn initialization(
    pod: &Pod,
    views: &BTreeMap<String, ContainerView>,
    regular: &Tally,
) -> Initialization {
    let begun = regular.running + regular.stopped > 0;
    let mut pending = false;
    for container in &pod.spec.init_containers {
        let view = views.get(&container.name).copied();
        if container.is_sidecar() {
            // After the regular containers have started, a restarting sidecar does not count as
            // initialization.
            let up = matches!(view, Some(ContainerView::Running { started: true }));
            pending |= !up && !begun;
            continue;
        }
        match view {
            // It was removed since; otherwise no regular container would have started.
            None if begun => {}
            None
            | Some(ContainerView::Running { .. } | ContainerView::Waiting { last_exit: None }) => {
                pending = true;
            }
            Some(
                ContainerView::Terminated { exit_code: code }
                | ContainerView::Waiting {
                    last_exit: Some(code),
                },
            ) if code != 0 => {
                if !container_should_restart(container, pod.spec.restart_policy, code) {
                    return Initialization::Failed;
                }
                pending = true;
            }
            Some(_) => {}
        }
    }
    if pending {
        Initialization::Pending
    } else {
        Initialization::Done
    }
}

#[derive(Default)]
struct Tally {
    unknown: usize,
    waiting: usize,
    running: usize,
    stopped: usize,
    succeeded: usize,
    coming_back: bool,
}

impl Tally {
    fn of(pod: &Pod, views: &BTreeMap<String, ContainerView>) -> Self {
        let mut tally = Self::default();
        for container in &pod.spec.containers {
            match views.get(&container.name) {
                None => tally.unknown += 1,
                Some(ContainerView::Waiting { last_exit: None }) => tally.waiting += 1,
                Some(ContainerView::Running { .. }) => tally.running += 1,
                Some(ContainerView::Waiting { last_exit: Some(_) }) => {
                    tally.stopped += 1;
                    tally.coming_back |= pod.spec.restart_policy != RestartPolicy::Never
                        || container.restart_policy.is_some();
                }
                Some(ContainerView::Terminated { exit_code }) => {
                    tally.stopped += 1;
                    tally.succeeded += usize::from(*exit_code == 0);
                    tally.coming_back |=
                        container_should_restart(container, pod.spec.restart_policy, *exit_code);
                }
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::container;

    const RUNS: ContainerView = ContainerView::Running { started: true };
    const STARTS: ContainerView = ContainerView::Running { started: false };
    const NEW: ContainerView = ContainerView::Waiting { last_exit: None };
    const LOOPS: ContainerView = ContainerView::Waiting { last_exit: Some(1) };
    const DONE: ContainerView = ContainerView::Terminated { exit_code: 0 };
    const BROKE: ContainerView = ContainerView::Terminated { exit_code: 1 };

    fn phase(
        policy: RestartPolicy,
        init: &[&str],
        views: &[(&str, ContainerView)],
        finished: bool,
    ) -> PodPhase {
        let mut pod = Pod::default();
        pod.spec.restart_policy = policy;
        pod.spec.containers = vec![container("a"), container("b")];
        pod.spec.init_containers = init.iter().map(|name| container(name)).collect();
        for c in &mut pod.spec.init_containers {
            if c.name.starts_with('s') {
                c.restart_policy = Some(crate::pod::ContainerRestartPolicy::Always);
            }
        }
        let views = views.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        pod_phase(&pod, &views, finished)
    }

    #[test]
    fn regular_containers() {
        use PodPhase::{Failed, Pending, Running, Succeeded};
        use RestartPolicy::{Always, Never, OnFailure};
        for (policy, a, b, expected) in [
            (Always, None, None, Pending),
            (Always, Some(RUNS), None, Pending),
            (Always, Some(RUNS), Some(NEW), Pending),
            (Always, Some(RUNS), Some(RUNS), Running),
            (Always, Some(RUNS), Some(LOOPS), Running),
            (Always, Some(LOOPS), Some(LOOPS), Running),
            (Always, Some(DONE), Some(DONE), Running),
            (OnFailure, Some(DONE), Some(DONE), Succeeded),
            (OnFailure, Some(DONE), Some(BROKE), Running),
            (OnFailure, Some(DONE), Some(LOOPS), Running),
            (OnFailure, Some(DONE), Some(RUNS), Running),
            (Never, Some(DONE), Some(DONE), Succeeded),
            (Never, Some(DONE), Some(BROKE), Failed),
            (Never, Some(BROKE), Some(RUNS), Running),
            (Never, Some(BROKE), None, Pending),
        ] {
            let views: Vec<_> = [("a", a), ("b", b)]
                .into_iter()
                .filter_map(|(n, v)| v.map(|v| (n, v)))
                .collect();
            assert_eq!(
                phase(policy, &[], &views, false),
                expected,
                "{policy:?} {views:?}"
            );
        }
    }

    #[test]
    fn a_finished_pod_does_not_come_back() {
        let broke = [("a", BROKE), ("b", DONE)];
        assert_eq!(
            phase(RestartPolicy::Always, &[], &broke, true),
            PodPhase::Failed
        );
        let done = [("a", DONE), ("b", DONE)];
        assert_eq!(
            phase(RestartPolicy::Always, &[], &done, true),
            PodPhase::Succeeded
        );
    }

    #[test]
    fn init_containers() {
        use PodPhase::{Failed, Pending, Running};
        use RestartPolicy::{Always, Never, OnFailure};
        let regular = [("a", RUNS), ("b", RUNS)];
        for (policy, init, view, with_regular, expected) in [
            (Always, "i", None, false, Pending),
            (Always, "i", Some(RUNS), false, Pending),
            (Never, "i", Some(BROKE), false, Failed),
            (OnFailure, "i", Some(BROKE), false, Pending),
            (OnFailure, "i", Some(LOOPS), false, Pending),
            (Never, "i", Some(DONE), true, Running),
            (Always, "i", None, true, Running),
            (Always, "s", Some(STARTS), false, Pending),
            (Always, "s", Some(RUNS), true, Running),
            (Always, "s", Some(LOOPS), true, Running),
            (Never, "s", None, false, Pending),
        ] {
            let mut views: Vec<_> = view.map(|v| (init, v)).into_iter().collect();
            if with_regular {
                views.extend(regular);
            }
            assert_eq!(
                phase(policy, &[init], &views, false),
                expected,
                "{policy:?} {init} {view:?}"
            );
        }
    }
}
