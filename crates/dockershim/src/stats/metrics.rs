//! Figures in the manner of Prometheus, under cAdvisor's names.

use std::sync::{Arc, PoisonError};

use orlop_cgroup::Stats;
use orlop_cri::pod_metrics::{Samples, Table};
use orlop_cri::v1::MetricType::Gauge;
use orlop_cri::v1::{ContainerMetrics, Metric, MetricDescriptor, PodSandboxMetrics};
use orlop_network::traffic_of;

use super::place::{self, Place};
use super::processes::open_files;
use crate::docker::Which;
use crate::docker::types::ContainerSummary;
use crate::error::{Error, Result};
use crate::shim::Shim;
use crate::{clock, labels, names};

#[rustfmt::skip]
const TABLE: Table = Table::with(&[
    ("container_threads", "Processes and threads", &[], Gauge),
    ("container_threads_max", "Processes and threads that are allowed; 0 means any number", &[], Gauge),
]);

const NANOS: u64 = 1_000_000_000;
const MICROS: u64 = 1_000_000;

/// All metrics with their labels.
pub(crate) fn descriptors() -> Vec<MetricDescriptor> {
    TABLE.descriptors()
}

/// The metrics of all pods and containers that run.
pub(crate) async fn all(shim: &Shim) -> Result<Vec<PodSandboxMetrics>> {
    let which = Which {
        labels: vec![labels::KIND.to_owned()],
        states: vec!["running".into()],
        ..Which::default()
    };
    let listed = shim.docker.list_containers(&which).await;
    let listed = listed.map_err(Error::engine("listing what runs"))?;
    let mut places = Vec::with_capacity(listed.len());
    for one in listed {
        match place::of(shim, &one.id).await {
            Ok(place) => places.push((one, place)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let root = shim.info().await?.docker_root_dir.clone();
    let read = tokio::task::spawn_blocking(move || gathered(&places, &root));
    Ok(read
        .await
        .map_err(|_| Error::Internal("reading the metrics broke".to_owned()))?)
}

fn gathered(places: &[(ContainerSummary, Arc<Place>)], root: &str) -> Vec<PodSandboxMetrics> {
    let is_sandbox = |one: &ContainerSummary| {
        one.labels
            .get(labels::KIND)
            .is_some_and(|kind| kind == labels::SANDBOX)
    };
    let sandboxes = places.iter().filter(|(one, _)| is_sandbox(one));
    sandboxes
        .map(|(sandbox, place)| {
            let own = places.iter().filter(|(one, _)| {
                one.labels.get(labels::SANDBOX_ID) == Some(&sandbox.id) && !is_sandbox(one)
            });
            PodSandboxMetrics {
                pod_sandbox_id: sandbox.id.clone(),
                metrics: of_pod(sandbox, place),
                container_metrics: own
                    .map(|(container, place)| ContainerMetrics {
                        container_id: container.id.clone(),
                        metrics: of_container(container, place, root),
                    })
                    .collect(),
            }
        })
        .collect()
}

fn of_pod(sandbox: &ContainerSummary, place: &Place) -> Vec<Metric> {
    let mut samples = samples(sandbox, place);
    if let Some((cgroup, meter)) = &place.pod {
        let mut meter = meter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = meter.read(cgroup) {
            usage(&mut samples, &reading.stats);
        }
    }
    if place.pid > 0 && !place.host_network {
        traffic(&mut samples, place.pid.unsigned_abs());
    }
    samples.finish()
}

fn of_container(container: &ContainerSummary, place: &Place, root: &str) -> Vec<Metric> {
    let mut samples = samples(container, place);
    let mut meter = place.meter.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cgroup) = &place.cgroup
        && let Some(reading) = meter.read(cgroup)
    {
        usage(&mut samples, &reading.stats);
        samples.add("container_oom_events_total", meter.oom_kills());
        let pids = cgroup.processes().unwrap_or_default();
        let open = open_files(&pids);
        samples.add("container_processes", pids.len() as u64);
        samples.add("container_file_descriptors", open.descriptors);
        samples.add("container_sockets", open.sockets);
    }
    let written = place
        .upper
        .as_deref()
        .map_or(0, |upper| meter.layer.bytes(upper));
    drop(meter);
    file_system(&mut samples, root, written);
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
        "container_start_time_seconds",
        positive(place.started_at) / NANOS,
    );
    let seen = positive(samples.at()) / NANOS;
    samples.add("container_last_seen", seen);
    samples.finish()
}

/// None yet, under the labels of a pod or container.
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

fn usage(samples: &mut Samples, stats: &Stats) {
    if let Some(cpu) = &stats.cpu {
        samples.add_with(
            "container_cpu_usage_seconds_total",
            &["total"],
            cpu.usage_ns / NANOS,
        );
        samples.add("container_cpu_user_seconds_total", cpu.user_ns / NANOS);
        samples.add("container_cpu_system_seconds_total", cpu.system_ns / NANOS);
        samples.add("container_cpu_cfs_periods_total", cpu.periods);
        samples.add(
            "container_cpu_cfs_throttled_periods_total",
            cpu.throttled_periods,
        );
        samples.add(
            "container_cpu_cfs_throttled_seconds_total",
            cpu.throttled_ns / NANOS,
        );
    }
    if let Some(memory) = &stats.memory {
        samples.add("container_memory_usage_bytes", memory.usage);
        samples.add("container_memory_working_set_bytes", memory.working_set);
        samples.add("container_memory_rss", memory.rss);
        samples.add("container_memory_cache", memory.cache);
        samples.add("container_memory_mapped_file", memory.mapped_file);
        samples.add("container_memory_kernel_usage", memory.kernel);
        samples.add(
            "container_memory_max_usage_bytes",
            memory.peak.unwrap_or(memory.usage),
        );
        samples.add("container_memory_failcnt", memory.failures);
        samples.add("container_memory_swap", memory.swap_usage.unwrap_or(0));
        for (kind, count) in [
            ("pgfault", memory.page_faults),
            ("pgmajfault", memory.major_page_faults),
        ] {
            samples.add_with(
                "container_memory_failures_total",
                &[kind, "container"],
                count,
            );
        }
    }
    if let Some(pids) = &stats.pids {
        samples.add("container_threads", pids.current);
        samples.add("container_threads_max", pids.limit.unwrap_or(0));
    }
    for pages in &stats.hugetlb {
        samples.add_with(
            "container_hugetlb_usage_bytes",
            &[&pages.page_size],
            pages.usage,
        );
    }
    for device in &stats.io {
        let name = format!("{}:{}", device.major, device.minor);
        let (major, minor) = (device.major.to_string(), device.minor.to_string());
        for (way, bytes) in [("Read", device.read_bytes), ("Write", device.write_bytes)] {
            let labels = [&*name, &*major, &*minor, way];
            samples.add_with("container_blkio_device_usage_total", &labels, bytes);
        }
        samples.add_with("container_fs_reads_total", &[&name], device.reads);
        samples.add_with(
            "container_fs_reads_bytes_total",
            &[&name],
            device.read_bytes,
        );
        samples.add_with("container_fs_writes_total", &[&name], device.writes);
        samples.add_with(
            "container_fs_writes_bytes_total",
            &[&name],
            device.write_bytes,
        );
    }
    for (what, pressure) in [
        ("cpu", &stats.pressure.cpu),
        ("memory", &stats.pressure.memory),
        ("io", &stats.pressure.io),
    ] {
        if let Some(pressure) = pressure {
            let name = |kind: &str| format!("container_pressure_{what}_{kind}_seconds_total");
            samples.add(&name("waiting"), pressure.some.total_us / MICROS);
            samples.add(&name("stalled"), pressure.full.total_us / MICROS);
        }
    }
}

/// The file system that the writable layer is on.
fn file_system(samples: &mut Samples, root: &str, written: u64) {
    let (Ok(stat), Ok(place)) = (rustix::fs::statvfs(root), rustix::fs::stat(root)) else {
        return;
    };
    let (major, minor) = (
        rustix::fs::major(place.st_dev),
        rustix::fs::minor(place.st_dev),
    );
    let device = [&*format!("{major}:{minor}")];
    samples.add_with("container_fs_usage_bytes", &device, written);
    samples.add_with(
        "container_fs_limit_bytes",
        &device,
        stat.f_blocks * stat.f_frsize,
    );
    samples.add_with("container_fs_inodes_total", &device, stat.f_files);
    samples.add_with("container_fs_inodes_free", &device, stat.f_ffree);
}

fn traffic(samples: &mut Samples, pid: u32) {
    for interface in traffic_of(pid) {
        let name = [interface.name.as_str()];
        for (way, figures) in [
            ("receive", &interface.received),
            ("transmit", &interface.sent),
        ] {
            for (what, number) in [
                ("bytes", figures.bytes),
                ("packets", figures.packets),
                ("errors", figures.errors),
                ("packets_dropped", figures.dropped),
            ] {
                samples.add_with(
                    &format!("container_network_{way}_{what}_total"),
                    &name,
                    number,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_cri::v1::MetricType::Counter;

    use super::*;

    #[test]
    fn names_are_sorted_and_unlike() {
        let all = TABLE.descriptors();
        assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn counters_are_called_totals() {
        for (name, _, _, kind) in TABLE.rows() {
            // cAdvisor's names are older than the rule.
            if ["container_memory_failcnt", "container_fs_inodes_total"].contains(name) {
                continue;
            }
            assert_eq!(*kind == Counter, name.ends_with("_total"), "{name}");
        }
    }
}
