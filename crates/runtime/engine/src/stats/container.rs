//! Resource usage of a container, for CRI.

use std::path::PathBuf;

use orlop_cri_api::v1::{ContainerAttributes, ContainerStats};
use orlop_cri_server::usage::Reading;

use super::within;
use crate::node::Node;
use crate::record::container::{Container, Phase};
use crate::record::pod_files::PodFiles;

/// Reads a container's statistics, without those of processes if it has none. Blocks.
pub fn of_container(node: &Node, container: &Container) -> ContainerStats {
    let own = || node.cgroups.of_container(container);
    let others = || within::of(&node.runtimes, &container.pod, container.id.as_str());
    let mut meter = container.meter.lock();
    // The cgroup of an exited container is gone, or about to be.
    let reading = (container.phase() == Phase::Running)
        .then(|| meter.read_usual_or(own, others))
        .flatten();
    let layer = meter.layer.usage(
        || written_paths(node, container),
        &node.config().containers_root,
    );
    drop(meter);
    let reading = reading.as_ref();
    ContainerStats {
        attributes: Some(ContainerAttributes {
            id: container.id.to_string(),
            metadata: container.config.metadata.clone(),
            labels: container.config.labels.clone(),
            annotations: container.config.annotations.clone(),
        }),
        cpu: reading.and_then(Reading::cpu),
        memory: reading.and_then(Reading::memory),
        writable_layer: Some(layer),
        swap: reading.and_then(Reading::swap),
        io: reading.and_then(Reading::io),
    }
}

/// The paths in which a container writes to the host's disk. The pod's files count only for its oldest running
/// container.
pub fn written_paths(node: &Node, container: &Container) -> Vec<PathBuf> {
    let mut paths = vec![container.upper(), container.volumes()];
    let mut containers = node.containers.of(&container.pod);
    containers.retain(|container| container.phase() == Phase::Running);
    let oldest = containers
        .iter()
        .min_by_key(|one| (one.created_at, &one.id));
    if oldest.is_some_and(|oldest| oldest.id == container.id) {
        let files = PodFiles::of(&container.pod);
        paths.extend([files.hostname, files.hosts, files.resolv]);
    }
    paths
}
