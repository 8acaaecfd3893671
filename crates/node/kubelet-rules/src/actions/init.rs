//! Decides which init container runs next, and whether the regular containers can start.

use super::compute::has_changed;
use super::resize::{ResizePlan, plan_resize};
use super::{KillReason, Observed, PodActions, ProbeResult};
use crate::pod::{Container, Pod};
use crate::restart::{container_should_restart, restarts_after_probe};
use crate::status::{ContainerState, ContainerStatus};

/// Whether the regular containers can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Initialized {
    Yes,
    No,
}

/// Goes through the init containers from the last to the first. The last one that has a status
/// shows the progress; before it, only sidecars matter.
pub(super) fn plan_init_containers(
    pod: &Pod,
    observed: &Observed,
    actions: &mut PodActions,
) -> Initialized {
    if pod.spec.init_containers.is_empty() {
        return Initialized::Yes;
    }
    let mut walk = Walk {
        pod,
        observed,
        initialized: any_regular_active(pod, observed),
        found: false,
    };
    walk.found = walk.initialized;
    for (i, container) in pod.spec.init_containers.iter().enumerate().rev() {
        let Some(status) = observed.status.newest(&container.name) else {
            if walk.found && container.is_sidecar() {
                actions.init_containers_to_start.push(i);
            }
            continue;
        };
        if walk.found && !container.is_sidecar() {
            continue;
        }
        let go_on = if container.is_sidecar() {
            walk.sidecar(i, container, status, actions);
            true
        } else {
            walk.plain(i, container, status, actions)
        };
        if !go_on {
            actions.kill_pod = true;
            actions.init_containers_to_start.clear();
            return Initialized::No;
        }
        walk.found = true;
    }
    if !walk.found {
        actions.init_containers_to_start.push(0);
    }
    actions.init_containers_to_start.reverse();
    if walk.initialized {
        Initialized::Yes
    } else {
        Initialized::No
    }
}

/// Whether a regular container is created or running. Exited ones do not count: after a reboot all
/// have exited, and the work of the init containers may be lost.
fn any_regular_active(pod: &Pod, observed: &Observed) -> bool {
    pod.spec.containers.iter().any(|c| {
        observed
            .status
            .newest(&c.name)
            .is_some_and(|s| matches!(s.state, ContainerState::Created | ContainerState::Running))
    })
}

struct Walk<'a> {
    pod: &'a Pod,
    observed: &'a Observed,
    /// Whether initialization is complete.
    initialized: bool,
    /// Whether initialization has passed the current container.
    found: bool,
}

impl Walk<'_> {
    fn sidecar(
        &mut self,
        i: usize,
        container: &Container,
        status: &ContainerStatus,
        actions: &mut PodActions,
    ) {
        match status.state {
            ContainerState::Created | ContainerState::Exited => {
                actions.init_containers_to_start.push(i);
            }
            ContainerState::Unknown => {
                actions.kill(status, KillReason::Unknown, true);
                actions.init_containers_to_start.push(i);
            }
            ContainerState::Running => self.running_sidecar(i, container, status, actions),
        }
    }

    fn running_sidecar(
        &mut self,
        i: usize,
        container: &Container,
        status: &ContainerStatus,
        actions: &mut PodActions,
    ) {
        let probes = &self.observed.probes;
        if container.startup_probe.is_some() {
            match probes.startup.get(&status.id) {
                Some(ProbeResult::Success) => {}
                Some(ProbeResult::Failure) => {
                    actions.kill(status, KillReason::StartupProbe, true);
                    actions.init_containers_to_start.push(i);
                    return;
                }
                Some(ProbeResult::Unknown) | None => return,
            }
        }
        self.advance(i, actions);
        let reason = if has_changed(container, status) {
            KillReason::DefinitionChanged
        } else if probes.liveness.get(&status.id) == Some(&ProbeResult::Failure) {
            KillReason::LivenessProbe
        } else {
            match plan_resize(container, status, self.observed) {
                ResizePlan::Keep => return,
                ResizePlan::InPlace(resize) => {
                    actions.containers_to_resize.push(resize);
                    return;
                }
                ResizePlan::Restart => KillReason::Resized,
            }
        };
        actions.kill(status, reason, true);
        actions.init_containers_to_start.push(i);
    }

    /// Returns false if the pod has failed permanently.
    fn plain(
        &mut self,
        i: usize,
        container: &Container,
        status: &ContainerStatus,
        actions: &mut PodActions,
    ) -> bool {
        let policy = self.pod.spec.restart_policy;
        match status.state {
            // Created but never started: the runtime could not start it.
            ContainerState::Created => actions.init_containers_to_start.push(i),
            ContainerState::Running => {}
            ContainerState::Exited if status.init_failed() => {
                // An OOM kill counts as a failure, whatever the exit code.
                let code = if status.exit_code == 0 {
                    137
                } else {
                    status.exit_code
                };
                if !container_should_restart(container, policy, code) {
                    return false;
                }
                actions.init_containers_to_start.push(i);
            }
            ContainerState::Exited => self.advance(i, actions),
            ContainerState::Unknown => {
                if !restarts_after_probe(container, policy) {
                    return false;
                }
                actions.kill(status, KillReason::Unknown, true);
                actions.init_containers_to_start.push(i);
            }
        }
        true
    }

    /// The current container is complete: start the next one, or finish the initialization.
    fn advance(&mut self, i: usize, actions: &mut PodActions) {
        if i + 1 == self.pod.spec.init_containers.len() {
            self.initialized = true;
        } else if !self.found {
            actions.init_containers_to_start.push(i + 1);
        }
    }
}
