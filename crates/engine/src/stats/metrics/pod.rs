//! The metrics of a pod: its own, and its running containers'.

use std::sync::PoisonError;

use orlop_cri::pod_metrics::Samples;
use orlop_cri::v1::PodSandboxMetrics;
use orlop_service::usage::{self, TABLE};

use super::container::of_container;
use crate::clock;
use crate::container::Phase;
use crate::engine::Engine;
use crate::pod::Pod;

/// Reads a pod's metrics. Blocks.
pub fn of_pod(engine: &Engine, pod: &Pod) -> PodSandboxMetrics {
    let cgroup = engine.cgroups.of_pod(pod);
    let metadata = pod.metadata();
    let labels = [
        cgroup
            .as_ref()
            .map(|cgroup| cgroup.path().to_string())
            .unwrap_or_default(),
        pod.id.to_string(),
        String::new(),
        String::new(),
        metadata.namespace,
        metadata.name,
    ];
    let mut samples = Samples::new(TABLE, labels, clock::now());
    let mut meter = pod.meter.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reading) = cgroup.and_then(|cgroup| meter.read(&cgroup)) {
        usage::of_cgroup(&mut samples, reading.stats());
    }
    drop(meter);
    if let Some(keeper) = pod.now().keeper.filter(|_| !pod.host_network()) {
        usage::traffic(&mut samples, keeper.pid());
    }
    let containers = engine.containers_of(pod);
    let running = containers
        .iter()
        .filter(|container| container.phase() == Phase::Running);
    PodSandboxMetrics {
        pod_sandbox_id: pod.id.to_string(),
        metrics: samples.finish(),
        container_metrics: running
            .map(|container| of_container(engine, container))
            .collect(),
    }
}
