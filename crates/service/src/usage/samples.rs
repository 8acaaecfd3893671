//! What is counted of a pod or container, as metrics.

use std::path::Path;

use orlop_cgroup::Stats;
use orlop_cri::pod_metrics::Samples;
use orlop_network::traffic_of;

use super::processes::open_files;

const NANOS: u64 = 1_000_000_000;
const MICROS: u64 = 1_000_000;

/// What a cgroup counts.
pub fn of_cgroup(samples: &mut Samples, stats: &Stats) {
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

/// A container's processes and their open files.
pub fn of_processes(samples: &mut Samples, pids: &[i32]) {
    let open = open_files(pids);
    samples.add("container_processes", pids.len() as u64);
    samples.add("container_file_descriptors", open.descriptors);
    samples.add("container_sockets", open.sockets);
}

/// What went over the interfaces of the namespace that a process lives in.
pub fn traffic(samples: &mut Samples, pid: u32) {
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
                let metric = format!("container_network_{way}_{what}_total");
                samples.add_with(&metric, &name, number);
            }
        }
    }
}

/// The file system of the containers' layers, of which one has `written` so many bytes.
pub fn file_system(samples: &mut Samples, root: &Path, written: u64) {
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
