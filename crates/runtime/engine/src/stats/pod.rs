//! Resource usage of a pod, for CRI.

use orlop_cri_api::v1::{LinuxPodSandboxStats, PodSandboxAttributes, PodSandboxStats};
use orlop_cri_server::usage::{Reading, of_interfaces};

use super::container::of_container;
use super::within;
use crate::node::Node;
use crate::record::container::Phase;
use crate::record::pod::Pod;

/// Reads the statistics of a pod with its containers. Blocks.
pub fn of_pod(node: &Node, pod: &Pod) -> PodSandboxStats {
    let mut meter = pod.meter.lock();
    let own = || node.cgroups.of_pod(pod);
    let others = || within::of(&node.runtimes, pod, pod.id.as_str());
    let reading = meter.read_pod(own, others);
    let reading = reading.as_ref();
    // Read with the meter's lock held: a pod that stops loses its keeper before it closes the meter.
    let network = pod
        .keeper_pid()
        .filter(|_| !pod.host_network())
        .map(|pid| of_interfaces(&meter.traffic(pid)));
    drop(meter);
    let containers = node.containers.of(pod);
    let running = containers
        .iter()
        .filter(|container| container.phase() == Phase::Running);
    PodSandboxStats {
        attributes: Some(PodSandboxAttributes {
            id: pod.id.to_string(),
            metadata: pod.config.metadata.clone(),
            labels: pod.config.labels.clone(),
            annotations: pod.config.annotations.clone(),
        }),
        linux: Some(LinuxPodSandboxStats {
            cpu: reading.and_then(Reading::cpu),
            memory: reading.and_then(Reading::memory),
            network,
            process: reading.and_then(Reading::processes),
            containers: running
                .map(|container| of_container(node, container))
                .collect(),
            io: reading.and_then(Reading::io),
        }),
        windows: None,
    }
}
