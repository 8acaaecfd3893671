//! What a container uses.

use orlop_cri::v1::{ContainerAttributes, ContainerStats};
use orlop_service::usage::Reading;

use crate::config::Config;
use crate::node::cgroups::Cgroups;
use crate::record::container::{Container, Phase};

/// Reads a container's figures; those of its processes are absent when it has none. Blocks.
pub fn of_container(cgroups: &Cgroups, config: &Config, container: &Container) -> ContainerStats {
    let mut meter = container.meter.lock();
    // The cgroup of one that has ended is gone, or about to be.
    let reading = (container.phase() == Phase::Running)
        .then(|| meter.read_usual(|| cgroups.of_container(container)))
        .flatten();
    let layer = meter.layer.usage(|| container.upper(), &config.root);
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
