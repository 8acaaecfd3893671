//! Metric samples of a pod or container.

use orlop_cgroup::Stats;
use orlop_cri_api::pod_metrics::Samples;
use orlop_network::InterfaceTraffic;

use super::disk::Disk;
use super::processes::Seen;

const NANOS: u64 = 1_000_000_000;
const MICROS: u64 = 1_000_000;

/// Adds the samples of a cgroup.
pub fn of_cgroup(samples: &mut Samples, stats: &Stats, disk: &mut Disk) {
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
        samples.add("container_cpu_cfs_burst_periods_total", cpu.bursts);
        samples.add(
            "container_cpu_cfs_burst_seconds_total",
            cpu.burst_ns / NANOS,
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
        samples.add(
            "container_memory_total_active_file_bytes",
            memory.active_file,
        );
        samples.add(
            "container_memory_total_inactive_file_bytes",
            memory.inactive_file,
        );
        for (kind, scope, count) in [
            ("pgfault", "container", memory.own_page_faults),
            ("pgmajfault", "container", memory.own_major_page_faults),
            ("pgfault", "hierarchy", memory.page_faults),
            ("pgmajfault", "hierarchy", memory.major_page_faults),
        ] {
            samples.add_with("container_memory_failures_total", &[kind, scope], count);
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
    devices(samples, stats, disk);
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

fn devices(samples: &mut Samples, stats: &Stats, disk: &mut Disk) {
    for device in &stats.io {
        let (major, minor) = (device.major.to_string(), device.minor.to_string());
        let name = disk.name(device.major, device.minor);
        for (operation, bytes) in [("Read", device.read_bytes), ("Write", device.write_bytes)] {
            let labels = [name, &major, &minor, operation];
            samples.add_with("container_blkio_device_usage_total", &labels, bytes);
        }
        let label = [name];
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

/// Adds the samples of a container's processes and open files, with the time of the scan.
pub fn of_processes(samples: &mut Samples, seen: &Seen) {
    let at = samples.at();
    samples.set_at(seen.at);
    samples.add("container_processes", seen.processes);
    samples.add("container_file_descriptors", seen.descriptors);
    samples.add("container_sockets", seen.sockets);
    if let Some(limit) = seen.max_open_files {
        samples.add_with("container_ulimits_soft", &["max_open_files"], limit);
    }
    let tasks = &seen.tasks;
    for (state, count) in [
        ("running", tasks.running),
        ("sleeping", tasks.sleeping),
        ("stopped", tasks.stopped),
        ("uninterruptible", tasks.uninterruptible),
    ] {
        samples.add_with("container_tasks_state", &[state], count);
    }
    samples.add("container_cpu_load_average_10s", seen.load);
    samples.add("container_cpu_load_d_average_10s", seen.load_d);
    samples.set_at(at);
}

/// Adds the samples of interface traffic.
pub fn traffic(samples: &mut Samples, interfaces: &[InterfaceTraffic]) {
    for interface in interfaces {
        let name = [interface.name.as_str()];
        let (received, sent) = (&interface.received, &interface.sent);
        for (metric, number) in [
            ("container_network_receive_bytes_total", received.bytes),
            ("container_network_receive_packets_total", received.packets),
            ("container_network_receive_errors_total", received.errors),
            (
                "container_network_receive_packets_dropped_total",
                received.dropped,
            ),
            ("container_network_transmit_bytes_total", sent.bytes),
            ("container_network_transmit_packets_total", sent.packets),
            ("container_network_transmit_errors_total", sent.errors),
            (
                "container_network_transmit_packets_dropped_total",
                sent.dropped,
            ),
        ] {
            samples.add_with(metric, &name, number);
        }
    }
}
