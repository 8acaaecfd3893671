//! Conversion of pods and containers to CRI messages, and the filters that select them.

use std::collections::HashMap;

use orlop_cri_api::v1::{
    Container as ListedContainer, ContainerFilter, ContainerStatus, ImageSpec,
    LinuxPodSandboxStatus, Namespace, PodIp, PodSandbox, PodSandboxFilter, PodSandboxNetworkStatus,
    PodSandboxState, PodSandboxStatus,
};

use crate::record::container::Container;
use crate::record::pod::{Phase, Pod};

/// Returns the state of a pod as clients see it.
pub fn pod_state(pod: &Pod) -> PodSandboxState {
    match pod.phase() {
        // The journal will record it in a moment.
        Phase::Ready if pod.is_down() => PodSandboxState::SandboxNotready,
        Phase::Ready => PodSandboxState::SandboxReady,
        Phase::Creating | Phase::NotReady | Phase::Removing => PodSandboxState::SandboxNotready,
    }
}

/// Converts a pod for `ListPodSandbox`.
pub fn listed_pod(pod: &Pod) -> PodSandbox {
    PodSandbox {
        id: pod.id.to_string(),
        metadata: pod.config.metadata.clone(),
        state: pod_state(pod).into(),
        created_at: pod.created_at,
        labels: pod.config.labels.clone(),
        annotations: pod.config.annotations.clone(),
        runtime_handler: pod.handler.clone(),
    }
}

/// Converts a pod for `PodSandboxStatus`.
pub fn pod_status(pod: &Pod) -> PodSandboxStatus {
    PodSandboxStatus {
        id: pod.id.to_string(),
        metadata: pod.config.metadata.clone(),
        state: pod_state(pod).into(),
        created_at: pod.created_at,
        network: Some(pod_network(pod)),
        linux: Some(LinuxPodSandboxStatus {
            namespaces: Some(Namespace {
                options: Some(pod.namespaces().clone()),
            }),
        }),
        labels: pod.config.labels.clone(),
        annotations: pod.config.annotations.clone(),
        runtime_handler: pod.handler.clone(),
    }
}

fn pod_network(pod: &Pod) -> PodSandboxNetworkStatus {
    let mut ips = pod.ips().into_iter();
    PodSandboxNetworkStatus {
        ip: ips.next().unwrap_or_default(),
        additional_ips: ips.map(|ip| PodIp { ip }).collect(),
    }
}

/// Converts a container for `ListContainers`.
pub fn listed_container(container: &Container) -> ListedContainer {
    ListedContainer {
        id: container.id.to_string(),
        pod_sandbox_id: container.pod.id.to_string(),
        metadata: container.config.metadata.clone(),
        image: container.config.image.clone(),
        image_ref: container.image.id.clone(),
        state: container.state().into(),
        created_at: container.created_at,
        labels: container.config.labels.clone(),
        annotations: container.config.annotations.clone(),
        image_id: container.image.id.clone(),
    }
}

/// Converts a container for `ContainerStatus`.
pub fn container_status(container: &Container) -> ContainerStatus {
    let now = container.now();
    let exit = now.exit.unwrap_or_default();
    ContainerStatus {
        id: container.id.to_string(),
        metadata: container.config.metadata.clone(),
        state: container.state().into(),
        created_at: container.created_at,
        started_at: now.started_at,
        finished_at: exit.at,
        exit_code: exit.code,
        image: Some(status_image(container)),
        image_ref: container.image.reference.clone(),
        reason: exit.reason,
        message: exit.message,
        labels: container.config.labels.clone(),
        annotations: container.config.annotations.clone(),
        mounts: now.effective.mounts,
        log_path: container
            .log_path()
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default(),
        resources: Some(now.effective.resources),
        image_id: container.image.id.clone(),
        user: Some(now.effective.user),
        stop_signal: now.effective.stop_signal,
    }
}

/// Returns the image by a readable name: requests often carry only its digest.
fn status_image(container: &Container) -> ImageSpec {
    let mut image = container.config.image.clone().unwrap_or_default();
    image.image.clone_from(&container.image.name);
    image
}

/// Whether a filter selects a pod. Identifiers may be shortened.
pub fn pod_matches(pod: &Pod, filter: Option<&PodSandboxFilter>) -> bool {
    let Some(filter) = filter else { return true };
    pod.id.as_str().starts_with(&filter.id)
        && filter
            .state
            .as_ref()
            .is_none_or(|state| state.state() == pod_state(pod))
        && labels_match(&pod.config.labels, &filter.label_selector)
}

/// Whether a filter selects a container. Identifiers may be shortened.
pub fn container_matches(container: &Container, filter: Option<&ContainerFilter>) -> bool {
    let Some(filter) = filter else { return true };
    container.id.as_str().starts_with(&filter.id)
        && container
            .pod
            .id
            .as_str()
            .starts_with(&filter.pod_sandbox_id)
        && filter
            .state
            .as_ref()
            .is_none_or(|state| state.state() == container.state())
        && labels_match(&container.config.labels, &filter.label_selector)
}

/// Whether the labels have all keys of the selector with the same values.
pub fn labels_match(labels: &HashMap<String, String>, selector: &HashMap<String, String>) -> bool {
    selector
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}
