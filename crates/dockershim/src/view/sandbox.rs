//! Conversion of sandboxes to the CRI.

use std::net::IpAddr;

use orlop_cri_api::v1::{
    LinuxPodSandboxStatus, Namespace, NamespaceMode, NamespaceOption, PodIp, PodSandbox,
    PodSandboxMetadata, PodSandboxNetworkStatus, PodSandboxState, PodSandboxStatus,
};

use crate::checkpoint::Checkpoint;
use crate::docker::types::{Container, ContainerSummary};
use crate::{clock, labels, names};

/// Converts a listed sandbox; `None` if its name is not ours.
pub(crate) fn sandbox(listed: &ContainerSummary) -> Option<PodSandbox> {
    let metadata = listed
        .names
        .iter()
        .find_map(|name| names::sandbox_of(name))?;
    let (own_labels, annotations) = labels::parted(&listed.labels);
    Some(PodSandbox {
        id: listed.id.clone(),
        metadata: Some(metadata),
        state: state(listed.state == "running").into(),
        created_at: listed.created.saturating_mul(1_000_000_000),
        labels: own_labels,
        annotations,
        // The list does not contain the handler of a sandbox that another runtime created.
        runtime_handler: listed
            .labels
            .get(labels::HANDLER)
            .cloned()
            .unwrap_or_default(),
    })
}

/// Converts a sandbox that only has a checkpoint. The kubelet then stops and removes it.
pub(crate) fn ghost(id: &str, checkpoint: &Checkpoint) -> PodSandbox {
    PodSandbox {
        id: id.to_owned(),
        metadata: Some(PodSandboxMetadata {
            name: checkpoint.name.clone(),
            namespace: checkpoint.namespace.clone(),
            ..Default::default()
        }),
        state: PodSandboxState::SandboxNotready.into(),
        ..Default::default()
    }
}

fn state(running: bool) -> PodSandboxState {
    if running {
        PodSandboxState::SandboxReady
    } else {
        PodSandboxState::SandboxNotready
    }
}

/// Converts an inspected sandbox; `default_runtime` is the engine's default runtime.
pub(crate) fn sandbox_status(
    found: &Container,
    addresses: &[IpAddr],
    default_runtime: &str,
) -> PodSandboxStatus {
    let (own_labels, annotations) = labels::parted(&found.config.labels);
    let host = &found.host_config;
    let shared = |mode: &str, otherwise| {
        if mode == "host" {
            NamespaceMode::Node
        } else {
            otherwise
        }
    };
    let options = NamespaceOption {
        network: shared(&host.network_mode, NamespaceMode::Pod).into(),
        pid: shared(&host.pid_mode, NamespaceMode::Container).into(),
        ipc: shared(&host.ipc_mode, NamespaceMode::Pod).into(),
        ..Default::default()
    };
    let mut ips = addresses.iter().map(ToString::to_string);
    let handler = match found.config.labels.get(labels::HANDLER) {
        Some(handler) => handler,
        // Another runtime created the sandbox: without a handler it got the default one.
        None if host.runtime == default_runtime => "",
        None => &host.runtime,
    };
    PodSandboxStatus {
        id: found.id.clone(),
        metadata: names::sandbox_of(&found.name),
        state: state(found.state.running).into(),
        created_at: clock::parse(&found.created),
        network: Some(PodSandboxNetworkStatus {
            ip: ips.next().unwrap_or_default(),
            additional_ips: ips.map(|ip| PodIp { ip }).collect(),
        }),
        linux: Some(LinuxPodSandboxStatus {
            namespaces: Some(Namespace {
                options: Some(options),
            }),
        }),
        labels: own_labels,
        annotations,
        runtime_handler: handler.to_owned(),
    }
}
