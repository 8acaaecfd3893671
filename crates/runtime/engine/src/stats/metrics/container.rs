//! Metrics of a container.

use orlop_cri_api::pod_metrics::Samples;
use orlop_cri_api::v1::ContainerMetrics;
use orlop_cri_server::usage::{self, Disk, TABLE};

use crate::clock;
use crate::node::Node;
use crate::record::container::Container;
use crate::stats::{within, written_paths};

const NANOS: u64 = 1_000_000_000;

/// Reads the metrics of a container. Blocks.
pub(super) fn of_container(
    node: &Node,
    container: &Container,
    disk: &mut Disk,
) -> ContainerMetrics {
    let mut meter = container.meter.lock();
    let own = || node.cgroups.of_container(container);
    let reading = meter.read_or(own, || {
        within::of(&node.runtimes, &container.pod, container.id.as_str())
    });
    let layer = meter.layer.usage(
        || written_paths(node, container),
        &node.config().containers_root,
    );
    let cgroup = meter.cgroup().cloned().or_else(own);

    let id = cgroup
        .as_ref()
        .map_or_else(String::new, |cgroup| cgroup.path().to_string());
    let pod = container.pod.metadata();
    let labels = [
        id,
        container.id.to_string(),
        container.image.name.clone(),
        container.metadata().name,
        pod.namespace,
        pod.name,
    ];
    let at = clock::now();
    let mut samples = Samples::new(TABLE, labels, at);
    if let (Some(reading), Some(cgroup)) = (&reading, &cgroup) {
        usage::of_cgroup(&mut samples, reading.stats(), disk);
        samples.add("container_oom_events_total", meter.oom_kills());
        let seen = meter.processes.look(cgroup, container.pid());
        usage::of_processes(&mut samples, &seen);
    }
    drop(meter);
    limits(&mut samples, container);
    let written = layer.used_bytes.map_or(0, |bytes| bytes.value);
    samples.set_at(layer.timestamp);
    disk.usage(&mut samples, written);
    samples.set_at(at);
    let seconds = |nanos: i64| u64::try_from(nanos).unwrap_or(0) / NANOS;
    samples.add(
        "container_start_time_seconds",
        seconds(container.started_at()),
    );
    samples.add("container_last_seen", seconds(at));
    ContainerMetrics {
        container_id: container.id.to_string(),
        metrics: samples.finish(),
    }
}

fn limits(samples: &mut Samples, container: &Container) {
    let linux = container.linux_resources();
    let positive = |number: i64| u64::try_from(number).unwrap_or(0);
    samples.add("container_spec_cpu_period", positive(linux.cpu_period));
    samples.add("container_spec_cpu_quota", positive(linux.cpu_quota));
    samples.add("container_spec_cpu_shares", positive(linux.cpu_shares));
    samples.add(
        "container_spec_memory_limit_bytes",
        positive(linux.memory_limit_in_bytes),
    );
    // CRI has no field for a reservation; kubelets write `memory.low` through `unified`.
    let low = linux
        .unified
        .get("memory.low")
        .and_then(|text| text.parse().ok());
    samples.add(
        "container_spec_memory_reservation_limit_bytes",
        low.unwrap_or(0),
    );
    let swap = positive(linux.memory_swap_limit_in_bytes);
    samples.add("container_spec_memory_swap_limit_bytes", swap);
}
