//! Prometheus metrics under cAdvisor's names.

use std::path::Path;
use std::sync::Arc;

use orlop_cri_api::pod_metrics::Samples;
use orlop_cri_api::v1::{ContainerMetrics, Metric, PodSandboxMetrics};
use orlop_cri_server::usage::{self, Disk, TABLE};
use orlop_network::traffic_of;

use super::place::{self, Place, Stats};
use crate::docker::Which;
use crate::docker::types::ContainerSummary;
use crate::error::{Error, Result};
use crate::{clock, find, labels, names};

const NANOS: u64 = 1_000_000_000;

/// Returns the metrics of all running pods and containers.
pub(crate) async fn all(stats: &Stats) -> Result<Vec<PodSandboxMetrics>> {
    let which = Which {
        labels: vec![labels::KIND.to_owned()],
        states: vec!["running".into()],
        ..Which::default()
    };
    let listed = find::ours(&stats.docker, &which).await;
    let listed = listed.map_err(Error::engine("listing the running pods and containers"))?;
    let mut places = Vec::with_capacity(listed.len());
    for one in listed {
        match place::of(stats, &one.id).await {
            Ok(place) => places.push((one, place)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let root = stats.info.get().await?.docker_root_dir.clone();
    let read = orlop_pool::blocking(move || gathered(&places, Path::new(&root)));
    Ok(read
        .await
        .map_err(|_| Error::Internal("a task panicked while reading the metrics".to_owned()))?)
}

fn gathered(places: &[(ContainerSummary, Arc<Place>)], root: &Path) -> Vec<PodSandboxMetrics> {
    let is_sandbox = |one: &ContainerSummary| {
        one.labels
            .get(labels::KIND)
            .is_some_and(|kind| kind == labels::SANDBOX)
    };
    let sandboxes = places.iter().filter(|(one, _)| is_sandbox(one));
    let mut disk = Disk::at(root);
    sandboxes
        .map(|(sandbox, place)| {
            let own = places.iter().filter(|(one, _)| {
                one.labels.get(labels::SANDBOX_ID) == Some(&sandbox.id) && !is_sandbox(one)
            });
            PodSandboxMetrics {
                pod_sandbox_id: sandbox.id.clone(),
                metrics: of_pod(sandbox, place, &mut disk),
                container_metrics: own
                    .map(|(container, place)| ContainerMetrics {
                        container_id: container.id.clone(),
                        metrics: of_container(container, place, root, &mut disk),
                    })
                    .collect(),
            }
        })
        .collect()
}

fn of_pod(sandbox: &ContainerSummary, place: &Place, disk: &mut Disk) -> Vec<Metric> {
    let mut samples = samples(sandbox, place);
    if let Some((cgroup, meter)) = &place.pod {
        let mut meter = meter.lock();
        if let Some(reading) = meter.read(|| Some(cgroup.clone())) {
            usage::of_cgroup(&mut samples, reading.stats(), disk);
        }
    }
    if place.pid > 0 && !place.host_network {
        usage::traffic(&mut samples, &traffic_of(place.pid.unsigned_abs()));
    }
    samples.finish()
}

fn of_container(
    container: &ContainerSummary,
    place: &Place,
    root: &Path,
    disk: &mut Disk,
) -> Vec<Metric> {
    let mut samples = samples(container, place);
    let mut meter = place.meter.lock();
    if let Some(cgroup) = &place.cgroup
        && let Some(reading) = meter.read(|| Some(cgroup.clone()))
    {
        usage::of_cgroup(&mut samples, reading.stats(), disk);
        samples.add("container_oom_events_total", meter.oom_kills());
        let first = u32::try_from(place.pid).ok();
        let seen = meter.processes.look(cgroup, first);
        usage::of_processes(&mut samples, &seen);
    }
    let written = place
        .upper
        .as_deref()
        .and_then(|upper| {
            meter
                .layer
                .usage(|| vec![upper.to_owned()], root)
                .used_bytes
        })
        .map_or(0, |bytes| bytes.value);
    drop(meter);
    disk.usage(&mut samples, written);
    let positive = |number: i64| u64::try_from(number).unwrap_or(0);
    let limits = &place.limits;
    samples.add("container_spec_cpu_period", positive(limits.cpu_period));
    samples.add("container_spec_cpu_quota", positive(limits.cpu_quota));
    samples.add("container_spec_cpu_shares", positive(limits.cpu_shares));
    samples.add("container_spec_memory_limit_bytes", positive(limits.memory));
    samples.add(
        "container_spec_memory_swap_limit_bytes",
        positive(limits.memory_swap),
    );
    samples.add(
        "container_spec_memory_reservation_limit_bytes",
        place.memory_low,
    );
    samples.add(
        "container_start_time_seconds",
        positive(place.started_at) / NANOS,
    );
    let seen = positive(samples.at()) / NANOS;
    samples.add("container_last_seen", seen);
    samples.finish()
}

/// Creates an empty set of samples with the labels of a pod or container.
fn samples(of: &ContainerSummary, place: &Place) -> Samples {
    let pod = of
        .names
        .iter()
        .find_map(|name| names::sandbox_of(name))
        .unwrap_or_default();
    let container = of.names.iter().find_map(|name| names::container_of(name));
    let cgroup = place.cgroup.as_ref();
    let labels = [
        cgroup
            .map(|cgroup| cgroup.path().to_string())
            .unwrap_or_default(),
        of.id.clone(),
        of.image.clone(),
        container
            .map(|container| container.name)
            .unwrap_or_default(),
        pod.namespace,
        pod.name,
    ];
    Samples::new(TABLE, labels, clock::now())
}
