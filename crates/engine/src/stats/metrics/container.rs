//! The metrics of a container.

use std::sync::PoisonError;

use orlop_cgroup::Stats;
use orlop_cri::pod_metrics::Samples;
use orlop_cri::v1::ContainerMetrics;

use super::descriptors::TABLE;
use super::processes::{max_open_files, open_files};
use crate::clock;
use crate::container::Container;
use crate::engine::Engine;

const NANOS: u64 = 1_000_000_000;
const MICROS: u64 = 1_000_000;

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
        usage(&mut samples, reading.stats());
        let pids = cgroup
            .as_ref()
            .and_then(|cgroup| cgroup.processes_in_one().ok())
            .unwrap_or_default();
        let open = open_files(&pids);
        samples.add("container_processes", pids.len() as u64);
        samples.add("container_file_descriptors", open.descriptors);
        samples.add("container_sockets", open.sockets);
        let kills = cgroup
            .as_ref()
            .map_or(0, |cgroup| oom_kills(container, cgroup));
        samples.add("container_oom_events_total", kills);
    }
    limits(&mut samples, container);
    let written = layer.used_bytes.map_or(0, |bytes| bytes.value);
    file_system(&mut samples, engine, written);
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

/// What the cgroup counts; also for a pod's own cgroup.
pub(super) fn usage(samples: &mut Samples, stats: &Stats) {
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
        let size = [pages.page_size.as_str()];
        samples.add_with("container_hugetlb_usage_bytes", &size, pages.usage);
        let peak = pages.peak.unwrap_or(pages.usage);
        samples.add_with("container_hugetlb_max_usage_bytes", &size, peak);
    }
    pressure(samples, stats);
    devices(samples, stats);
}

fn pressure(samples: &mut Samples, stats: &Stats) {
    let all = [
        (
            &stats.pressure.cpu,
            "container_pressure_cpu_waiting_seconds_total",
            "container_pressure_cpu_stalled_seconds_total",
        ),
        (
            &stats.pressure.memory,
            "container_pressure_memory_waiting_seconds_total",
            "container_pressure_memory_stalled_seconds_total",
        ),
        (
            &stats.pressure.io,
            "container_pressure_io_waiting_seconds_total",
            "container_pressure_io_stalled_seconds_total",
        ),
    ];
    for (pressure, waiting, stalled) in all {
        if let Some(pressure) = pressure {
            samples.add(waiting, pressure.some.total_us / MICROS);
            samples.add(stalled, pressure.full.total_us / MICROS);
        }
    }
}

fn devices(samples: &mut Samples, stats: &Stats) {
    for device in &stats.io {
        let (major, minor) = (device.major.to_string(), device.minor.to_string());
        let name = device_name(device.major, device.minor);
        for (operation, bytes) in [("Read", device.read_bytes), ("Write", device.write_bytes)] {
            let labels = [name.as_str(), &major, &minor, operation];
            samples.add_with("container_blkio_device_usage_total", &labels, bytes);
        }
        let label = [name.as_str()];
        samples.add_with("container_fs_reads_total", &label, device.reads);
        samples.add_with("container_fs_reads_bytes_total", &label, device.read_bytes);
        samples.add_with("container_fs_writes_total", &label, device.writes);
        samples.add_with(
            "container_fs_writes_bytes_total",
            &label,
            device.write_bytes,
        );
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

fn file_system(samples: &mut Samples, engine: &Engine, written: u64) {
    let root = &engine.config.root;
    let Ok(stat) = rustix::fs::statvfs(root) else {
        return;
    };
    let device = rustix::fs::stat(root).map(|stat| {
        device_name(
            rustix::fs::major(stat.st_dev),
            rustix::fs::minor(stat.st_dev),
        )
    });
    let device = device.unwrap_or_default();
    let label = [device.as_str()];
    samples.add_with("container_fs_usage_bytes", &label, written);
    samples.add_with(
        "container_fs_limit_bytes",
        &label,
        stat.f_blocks * stat.f_frsize,
    );
    samples.add_with("container_fs_inodes_total", &label, stat.f_files);
    samples.add_with("container_fs_inodes_free", &label, stat.f_ffree);
}

fn device_name(major: u32, minor: u32) -> String {
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let name = link
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    name.map_or_else(|| format!("{major}:{minor}"), |name| format!("/dev/{name}"))
}

fn oom_kills(container: &Container, cgroup: &orlop_cgroup::Cgroup) -> u64 {
    let mut meter = container
        .meter
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    meter.oom_kills(cgroup)
}
