//! Resource usage of a container's cgroup, in containerd's messages.

use orlop_cgroup::{Cgroup, DeviceStats, MemoryStats, Stats, StatsReader, Version};
use orlop_containerd_api::Any;
use orlop_containerd_api::cgroups::{v1, v2};
use orlop_ttrpc::Status;

use crate::error::{Result, not_found};

/// Reads the statistics of a cgroup.
pub(crate) fn of(cgroup: Option<&Cgroup>) -> Result<Any> {
    let gone = || not_found("cgroup does not exist: not found");
    let cgroup = cgroup.filter(|cgroup| cgroup.exists()).ok_or_else(gone)?;
    let mut reader = StatsReader::new(cgroup);
    let stats = reader.read();
    let stats = stats.map_err(|error| {
        if error.is_not_found() {
            gone()
        } else {
            Status::new(orlop_ttrpc::code::UNKNOWN, error.to_string())
        }
    })?;
    // A cgroup without these counters reports zero.
    let kills = reader.oom().ok().flatten().map_or(0, |oom| oom.kills);
    Ok(match cgroup.hierarchies().version() {
        Version::V2 => Any::pack(&of_v2(&stats, kills)),
        _ => Any::pack(&of_v1(&stats, kills)),
    })
}

fn of_v1(stats: &Stats, kills: u64) -> v1::Metrics {
    let pids = stats.pids.unwrap_or_default();
    let hugetlb = stats.hugetlb.iter().map(|hugetlb| v1::HugetlbStat {
        usage: hugetlb.usage,
        max: hugetlb.peak.unwrap_or(0),
        pagesize: hugetlb.page_size.clone(),
    });
    let cpu = stats.cpu.as_ref().map(|cpu| v1::CpuStat {
        usage: Some(v1::CpuUsage {
            total: cpu.usage_ns,
            kernel: cpu.system_ns,
            user: cpu.user_ns,
        }),
        throttling: Some(v1::Throttle {
            periods: cpu.periods,
            throttled_periods: cpu.throttled_periods,
            throttled_time: cpu.throttled_ns,
        }),
    });
    let io = |read: fn(&DeviceStats) -> u64, write: fn(&DeviceStats) -> u64| {
        let entries = stats.io.iter().flat_map(move |device| {
            [("read", read(device)), ("write", write(device))].map(|(op, value)| v1::BlkIoEntry {
                op: op.into(),
                major: device.major.into(),
                minor: device.minor.into(),
                value,
            })
        });
        entries.collect()
    };
    v1::Metrics {
        hugetlb: hugetlb.collect(),
        pids: Some(v1::PidsStat {
            current: pids.current,
            limit: pids.limit.unwrap_or(0),
        }),
        cpu,
        memory: stats.memory.as_ref().map(v1_memory),
        blkio: Some(v1::BlkIoStat {
            io_service_bytes_recursive: io(|device| device.read_bytes, |device| device.write_bytes),
            io_serviced_recursive: io(|device| device.reads, |device| device.writes),
        }),
        memory_oom_control: Some(v1::MemoryOomControl { oom_kill: kills }),
    }
}

fn v1_memory(memory: &MemoryStats) -> v1::MemoryStat {
    let entry = |limit: Option<u64>, usage, max, failcnt| {
        Some(v1::MemoryEntry {
            limit: limit.unwrap_or(u64::MAX),
            usage,
            max,
            failcnt,
        })
    };
    let peak = memory.peak.unwrap_or(0);
    v1::MemoryStat {
        cache: memory.cache,
        rss: memory.rss,
        mapped_file: memory.mapped_file,
        pg_fault: memory.own_page_faults,
        pg_maj_fault: memory.own_major_page_faults,
        inactive_file: memory.inactive_file,
        active_file: memory.active_file,
        hierarchical_memory_limit: memory.limit.unwrap_or(u64::MAX),
        total_cache: memory.cache,
        total_rss: memory.rss,
        total_mapped_file: memory.mapped_file,
        total_pg_fault: memory.page_faults,
        total_pg_maj_fault: memory.major_page_faults,
        total_inactive_file: memory.inactive_file,
        total_active_file: memory.active_file,
        usage: entry(memory.limit, memory.usage, peak, memory.failures),
        // Version 1 counts memory and swap together.
        swap: memory
            .swap_usage
            .and_then(|swap| entry(memory.swap_limit, memory.usage + swap, 0, 0)),
        kernel: entry(None, memory.kernel, 0, 0),
    }
}

fn of_v2(stats: &Stats, kills: u64) -> v2::Metrics {
    let pids = stats.pids.unwrap_or_default();
    let cpu = stats.cpu.as_ref().map(|cpu| v2::CpuStat {
        usage_usec: cpu.usage_ns / 1000,
        user_usec: cpu.user_ns / 1000,
        system_usec: cpu.system_ns / 1000,
        nr_periods: cpu.periods,
        nr_throttled: cpu.throttled_periods,
        throttled_usec: cpu.throttled_ns / 1000,
        nr_bursts: cpu.bursts,
        bursts_usec: cpu.burst_ns / 1000,
    });
    let memory = stats.memory.as_ref().map(|memory| v2::MemoryStat {
        anon: memory.rss,
        file: memory.cache,
        file_mapped: memory.mapped_file,
        inactive_file: memory.inactive_file,
        active_file: memory.active_file,
        pgfault: memory.page_faults,
        pgmajfault: memory.major_page_faults,
        usage: memory.usage,
        usage_limit: memory.limit.unwrap_or(u64::MAX),
        swap_usage: memory.swap_usage.unwrap_or(0),
        swap_limit: memory.swap_limit.unwrap_or(u64::MAX),
        max_usage: memory.peak.unwrap_or(0),
    });
    let io = stats.io.iter().map(|device| v2::IoEntry {
        major: device.major.into(),
        minor: device.minor.into(),
        rbytes: device.read_bytes,
        wbytes: device.write_bytes,
        rios: device.reads,
        wios: device.writes,
    });
    let hugetlb = stats.hugetlb.iter().map(|hugetlb| v2::HugeTlbStat {
        current: hugetlb.usage,
        max: hugetlb.peak.unwrap_or(0),
        pagesize: hugetlb.page_size.clone(),
    });
    v2::Metrics {
        pids: Some(v2::PidsStat {
            current: pids.current,
            limit: pids.limit.unwrap_or(0),
        }),
        cpu,
        memory,
        io: Some(v2::IoStat {
            usage: io.collect(),
        }),
        hugetlb: hugetlb.collect(),
        memory_events: Some(v2::MemoryEvents { oom_kill: kills }),
    }
}
