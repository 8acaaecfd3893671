//! Conversion of pods and containers to NRI messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_cri_api::v1::{self as cri, LinuxContainerResources, NamespaceMode};
use orlop_nri::v1alpha1::{
    CdiDevice, Container as ContainerView, ContainerState, HugepageLimit, Image, LinuxContainer,
    LinuxCpu, LinuxMemory, LinuxNamespace, LinuxPodSandbox, LinuxResources, OptionalInt64,
    OptionalUInt64, PodSandbox, SecurityProfile, security_profile::ProfileType,
};
use orlop_oci_types as oci;

use super::of_oci;
use crate::blocking;
use crate::node::cgroups::Cgroups;
use crate::node::paths::Paths;
use crate::record::container::{Container, Phase};
use crate::record::pod::Pod;
use crate::record::spec_file;

/// Converts a pod to its NRI message.
pub fn pod(cgroups: &Cgroups, paths: &Paths, pod: &Pod) -> PodSandbox {
    let metadata = pod.metadata();
    let keeper = pod.now().keeper;
    let cgroup = cgroups.of_pod(pod);
    PodSandbox {
        id: pod.id.to_string(),
        name: metadata.name,
        uid: metadata.uid,
        namespace: metadata.namespace,
        labels: sorted(&pod.config.labels),
        annotations: sorted(&pod.config.annotations),
        runtime_handler: pod.handler.clone(),
        linux: Some(LinuxPodSandbox {
            pod_overhead: pod.overhead().as_ref().map(resources_of_request),
            pod_resources: pod.resources().as_ref().map(resources_of_request),
            cgroup_parent: pod.linux().cgroup_parent.clone(),
            cgroups_path: cgroup.map_or_else(String::new, |own| own.path().to_string()),
            namespaces: namespaces(paths, pod),
            resources: None,
        }),
        pid: keeper.map_or(0, |keeper| keeper.pid()),
        ips: pod.ips(),
    }
}

/// The namespaces of a pod, while its keeper holds them.
fn namespaces(paths: &Paths, pod: &Pod) -> Vec<LinuxNamespace> {
    let Ok(keeper) = pod.keeper() else {
        return Vec::new();
    };
    let modes = pod.namespaces();
    let own = |mode: NamespaceMode| mode != NamespaceMode::Node;
    let mut list = Vec::new();
    let mut add = |kind: &str, path: std::path::PathBuf| {
        list.push(LinuxNamespace {
            r#type: kind.to_owned(),
            path: path.to_string_lossy().into_owned(),
        });
    };
    if own(modes.network()) {
        add("network", paths.net_pin(&pod.id));
        add("uts", keeper.uts_ns());
    }
    if own(modes.ipc()) {
        add("ipc", keeper.ipc_ns());
    }
    if let Some(path) = keeper.pid_ns() {
        add("pid", path);
    }
    list
}

/// Returns a container and its pod, with the container's specification from disk.
pub async fn both(
    cgroups: &Cgroups,
    paths: &Paths,
    own: &Arc<Container>,
) -> (PodSandbox, ContainerView) {
    (
        pod(cgroups, paths, &own.pod),
        container_with_spec(own).await,
    )
}

/// Returns a container with its specification from disk. The specification is missing before creation completes, or
/// after a reboot.
pub async fn container_with_spec(own: &Arc<Container>) -> ContainerView {
    let path = own.bundle.clone();
    let spec = blocking(move || spec_file::read(&path)).await.ok();
    container(own, spec.as_ref())
}

/// Converts a container to its NRI message, with the given specification.
pub fn container(own: &Container, spec: Option<&oci::Spec>) -> ContainerView {
    let now = own.now();
    let exit = now.exit.clone().unwrap_or_default();
    let state = match now.phase {
        Phase::Creating => ContainerState::ContainerUnknown,
        Phase::Created => ContainerState::ContainerCreated,
        Phase::Running => ContainerState::ContainerRunning,
        Phase::Exited | Phase::Removing => ContainerState::ContainerStopped,
    };
    let mut view = ContainerView {
        id: own.id.to_string(),
        pod_sandbox_id: own.pod.id.to_string(),
        name: own.metadata().name,
        state: state.into(),
        labels: sorted(&own.config.labels),
        pid: now.pid.unwrap_or(0),
        created_at: own.created_at,
        started_at: now.started_at,
        finished_at: exit.at,
        exit_code: exit.code,
        status_reason: exit.reason,
        status_message: exit.message,
        cdi_devices: devices(&own.config.cdi_devices),
        image: Some(Image {
            name: own.image.name.clone(),
            digest: manifest_digest(&own.image.reference),
            config_digest: own.image.id.clone(),
        }),
        ..ContainerView::default()
    };
    if let Some(spec) = spec {
        of_oci::fill(spec, &mut view);
    }
    // Plugins see the client's annotations in any case, even those that the runtime does not get.
    view.annotations.extend(sorted(&own.config.annotations));
    let linux = view.linux.get_or_insert_with(LinuxContainer::default);
    linux.seccomp_profile = profile(own);
    view
}

/// Converts the resources of a request; zero means unset.
pub fn resources_of_request(asked: &LinuxContainerResources) -> LinuxResources {
    let signed = |value: i64| (value != 0).then_some(OptionalInt64 { value });
    let unsigned = |value: i64| {
        let value = u64::try_from(value).ok().filter(|value| *value != 0);
        value.map(|value| OptionalUInt64 { value })
    };
    let hugepages = asked.hugepage_limits.iter().map(|limit| HugepageLimit {
        page_size: limit.page_size.clone(),
        limit: limit.limit,
    });
    LinuxResources {
        cpu: Some(LinuxCpu {
            shares: unsigned(asked.cpu_shares),
            quota: signed(asked.cpu_quota),
            period: unsigned(asked.cpu_period),
            cpus: asked.cpuset_cpus.clone(),
            mems: asked.cpuset_mems.clone(),
            ..LinuxCpu::default()
        }),
        memory: Some(LinuxMemory {
            limit: signed(asked.memory_limit_in_bytes),
            swap: signed(asked.memory_swap_limit_in_bytes),
            ..LinuxMemory::default()
        }),
        hugepage_limits: hugepages.collect(),
        unified: sorted(&asked.unified),
        ..LinuxResources::default()
    }
}

fn profile(own: &Container) -> Option<SecurityProfile> {
    use cri::security_profile::ProfileType as Asked;
    let asked = own.security().seccomp.as_ref()?;
    let kind = match asked.profile_type() {
        Asked::RuntimeDefault => ProfileType::RuntimeDefault,
        Asked::Unconfined => ProfileType::Unconfined,
        Asked::Localhost => ProfileType::Localhost,
    };
    Some(SecurityProfile {
        profile_type: kind.into(),
        localhost_ref: asked.localhost_ref.clone(),
    })
}

fn devices(asked: &[cri::CdiDevice]) -> Vec<CdiDevice> {
    let device = |one: &cri::CdiDevice| CdiDevice {
        name: one.name.clone(),
    };
    asked.iter().map(device).collect()
}

/// Extracts the digest from `name@digest` or a bare digest.
fn manifest_digest(reference: &str) -> String {
    match reference.split_once('@') {
        Some((_, digest)) => digest.to_owned(),
        None if reference.contains(':') && !reference.contains('/') => reference.to_owned(),
        None => String::new(),
    }
}

fn sorted(map: &std::collections::HashMap<String, String>) -> BTreeMap<String, String> {
    map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
}
