//! The metrics of a container.

use std::sync::PoisonError;

use orlop_cri::pod_metrics::Samples;
use orlop_cri::v1::ContainerMetrics;
use orlop_service::usage::{self, TABLE, max_open_files};

use crate::clock;
use crate::container::Container;
use crate::engine::Engine;

const NANOS: u64 = 1_000_000_000;

/// Reads a container's metrics. Blocks.
pub(super) fn of_container(engine: &Engine, container: &Container) -> ContainerMetrics {
    let cgroup = engine.cgroups.of_container(container);
    let mut meter = container
        .meter
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let reading = cgroup.as_ref().and_then(|cgroup| meter.read(cgroup));
    let layer = meter.layer.usage(&container.upper(), &engine.config.root);
    drop(meter);

    let id = cgroup
        .as_ref()
        .map(|cgroup| cgroup.path().to_string())
        .unwrap_or_default();
    let pod = container.pod.metadata();
    let labels = [
        id,
        container.id.to_string(),
        container.image.name.clone(),
        container.metadata().name,
        pod.namespace,
        pod.name,
    ];
    let mut samples = Samples::new(TABLE, labels, clock::now());
    if let Some(reading) = &reading {
        usage::of_cgroup(&mut samples, reading.stats());
        let pids = cgroup
            .as_ref()
            .and_then(|cgroup| cgroup.processes_in_one().ok())
            .unwrap_or_default();
        usage::of_processes(&mut samples, &pids);
        let kills = cgroup
            .as_ref()
            .map_or(0, |cgroup| oom_kills(container, cgroup));
        samples.add("container_oom_events_total", kills);
    }
    limits(&mut samples, container);
    let written = layer.used_bytes.map_or(0, |bytes| bytes.value);
    usage::file_system(&mut samples, &engine.config.root, written);
    let started = u64::try_from(container.now().started_at).unwrap_or(0);
    samples.add("container_start_time_seconds", started / NANOS);
    samples.add(
        "container_last_seen",
        u64::try_from(clock::now()).unwrap_or(0) / NANOS,
    );
    ContainerMetrics {
        container_id: container.id.to_string(),
        metrics: samples.finish(),
    }
}

fn limits(samples: &mut Samples, container: &Container) {
    let now = container.now();
    let linux = now.effective.resources.linux.unwrap_or_default();
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
    if let Some(limit) = now.pid.and_then(max_open_files) {
        samples.add_with("container_ulimits_soft", &["max_open_files"], limit);
    }
}

fn oom_kills(container: &Container, cgroup: &orlop_cgroup::Cgroup) -> u64 {
    let mut meter = container
        .meter
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    meter.oom_kills(cgroup)
}
