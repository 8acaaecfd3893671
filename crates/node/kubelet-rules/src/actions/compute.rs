//! Computes the actions that a pod needs.

use super::init::{Initialized, plan_init_containers};
use super::reset::containers_to_reset;
use super::resize::{ResizePlan, plan_resize};
use super::{Kill, KillReason, Observed, PodActions, ProbeResult};
use crate::hash::ContainerHash;
use crate::pod::{Container, Pod, RestartPolicy};
use crate::restart::{effective_policy, restarts_after_probe, should_be_started};
use crate::sandbox_changed::pod_sandbox_changed;
use crate::status::{ContainerState, ContainerStatus};

/// Compares a pod with its observed state and returns the actions it needs; the kubelet's
/// `computePodActions`. It is called again after every change, so one call need not complete the
/// pod.
pub fn compute_pod_actions(pod: &Pod, observed: &Observed) -> PodActions {
    let sandbox = pod_sandbox_changed(pod, &observed.status);
    let mut actions = PodActions {
        sandbox_id: sandbox.id,
        attempt: sandbox.attempt,
        ..PodActions::default()
    };

    actions.containers_to_reset = containers_to_reset(pod, &observed.status);
    if !actions.containers_to_reset.is_empty() {
        return actions;
    }
    if sandbox.create {
        plan_new_sandbox(pod, observed, &mut actions);
        return actions;
    }

    // Ephemeral containers can start while the pod initializes; they start only once.
    actions.ephemeral_containers_to_start = pod
        .spec
        .ephemeral_containers
        .iter()
        .enumerate()
        .filter(|(_, c)| observed.status.newest(&c.name).is_none())
        .map(|(i, _)| i)
        .collect();

    let initialized = plan_init_containers(pod, observed, &mut actions);
    if initialized == Initialized::No || actions.kill_pod {
        return actions;
    }
    plan_regular_containers(pod, observed, &mut actions);
    actions
}

/// Stops everything and starts it in a new sandbox, unless nothing is left to run.
fn plan_new_sandbox(pod: &Pod, observed: &Observed, actions: &mut PodActions) {
    let status = &observed.status;
    actions.kill_pod = true;
    actions.create_sandbox = true;

    let once_only = pod.spec.restart_policy == RestartPolicy::Never;
    if once_only && actions.attempt != 0 && !status.containers().is_empty() {
        actions.create_sandbox = false;
        return;
    }
    let to_start: Vec<usize> = pod
        .spec
        .containers
        .iter()
        .enumerate()
        .filter(|(_, c)| {
            let done = effective_policy(c, pod.spec.restart_policy) == RestartPolicy::OnFailure
                && status
                    .newest(&c.name)
                    .is_some_and(ContainerStatus::succeeded);
            !done
        })
        .map(|(i, _)| i)
        .collect();
    let any_known = pod.spec.containers.iter().any(|c| {
        status
            .newest(&c.name)
            .is_some_and(|s| s.state != ContainerState::Unknown)
    });
    if to_start.is_empty() && any_known {
        actions.create_sandbox = false;
        return;
    }
    if pod.spec.init_containers.is_empty() {
        actions.containers_to_start = to_start;
    } else {
        actions.init_containers_to_start = vec![0];
    }
}

fn plan_regular_containers(pod: &Pod, observed: &Observed, actions: &mut PodActions) {
    let mut kept = 0;
    for (i, container) in pod.spec.containers.iter().enumerate() {
        let newest = observed.status.newest(&container.name);
        let Some(running) = newest.filter(|s| s.state == ContainerState::Running) else {
            if should_be_started(container, pod, &observed.status) {
                actions.containers_to_start.push(i);
                if let Some(unknown) = newest.filter(|s| s.state == ContainerState::Unknown) {
                    actions.kill(unknown, KillReason::Unknown, true);
                }
            }
            continue;
        };
        let restarts = restarts_after_probe(container, pod.spec.restart_policy);
        let failed = |results: &std::collections::BTreeMap<String, ProbeResult>| {
            results.get(&running.id) == Some(&ProbeResult::Failure)
        };
        let (reason, restarts) = if has_changed(container, running) {
            (KillReason::DefinitionChanged, true)
        } else if failed(&observed.probes.liveness) {
            (KillReason::LivenessProbe, restarts)
        } else if failed(&observed.probes.startup) {
            (KillReason::StartupProbe, restarts)
        } else {
            match plan_resize(container, running, observed) {
                ResizePlan::Keep => {
                    kept += 1;
                    continue;
                }
                ResizePlan::InPlace(resize) => {
                    kept += 1;
                    actions.containers_to_resize.push(resize);
                    continue;
                }
                ResizePlan::Restart => (KillReason::Resized, true),
            }
        };
        if restarts {
            actions.containers_to_start.push(i);
        }
        actions.kill(running, reason, restarts);
    }
    if kept == 0 && actions.containers_to_start.is_empty() {
        actions.kill_pod = true;
        // Otherwise sidecars would keep the pod alive.
        actions.init_containers_to_start.clear();
    }
}

/// Whether a running container was created from another definition.
pub(super) fn has_changed(container: &Container, running: &ContainerStatus) -> bool {
    running.hash != Some(ContainerHash::of(container))
}

impl PodActions {
    pub(super) fn kill(&mut self, status: &ContainerStatus, reason: KillReason, restarts: bool) {
        self.containers_to_kill.push(Kill {
            id: status.id.clone(),
            name: status.name.clone(),
            reason,
            restarts,
        });
    }
}
