//! Metrics of a pod and its running containers.

use orlop_cri_api::pod_metrics::Samples;
use orlop_cri_api::v1::PodSandboxMetrics;
use orlop_cri_server::usage::{self, Disk, TABLE};

use super::container::of_container;
use crate::clock;
use crate::node::Node;
use crate::record::container::Phase;
use crate::record::pod::Pod;

/// Reads the metrics of a pod. Blocks.
pub fn of_pod(node: &Node, pod: &Pod, disk: &mut Disk) -> PodSandboxMetrics {
    let mut meter = pod.meter.lock();
    let own = || node.cgroups.of_pod(pod);
    let reading = meter.read(own);
    let cgroup = match meter.cgroup() {
        Some(cgroup) => cgroup.path().to_string(),
        None => own().map_or_else(String::new, |cgroup| cgroup.path().to_string()),
    };
    let metadata = pod.metadata();
    let labels = [
        cgroup,
        pod.id.to_string(),
        String::new(),
        String::new(),
        metadata.namespace,
        metadata.name,
    ];
    let mut samples = Samples::new(TABLE, labels, clock::now());
    if let Some(reading) = &reading {
        usage::of_cgroup(&mut samples, reading.stats(), disk);
    }
    // Read with the meter's lock held: a pod that stops loses its keeper before it closes the meter.
    if let Some(pid) = pod.keeper_pid().filter(|_| !pod.host_network()) {
        usage::traffic(&mut samples, &meter.traffic(pid));
    }
    drop(meter);
    let containers = node.containers.of(pod);
    let running = containers
        .iter()
        .filter(|container| container.phase() == Phase::Running);
    PodSandboxMetrics {
        pod_sandbox_id: pod.id.to_string(),
        metrics: samples.finish(),
        container_metrics: running
            .map(|container| of_container(node, container, disk))
            .collect(),
    }
}
