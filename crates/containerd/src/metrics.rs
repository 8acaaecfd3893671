//! What a container uses, in the messages of containerd's: of the cgroup that it is in.

use orlop_cgroup::{Cgroup, MemoryStats, Stats, StatsReader, Version};
use orlop_ttrpc::{Status, Writer};

use crate::Result;
use crate::files::not_found;

const V1: &str = "io.containerd.cgroups.v1.Metrics";
const V2: &str = "io.containerd.cgroups.v2.Metrics";

/// The figures of a cgroup, as a `google.protobuf.Any`.
pub(crate) fn of(cgroup: Option<&Cgroup>) -> Result<Vec<u8>> {
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
    // One that does not count them has none to tell.
    let kills = reader.oom().ok().flatten().map_or(0, |oom| oom.kills);
    let (kind, metrics) = match cgroup.hierarchies().version() {
        Version::V2 => (V2, v2(&stats, kills)),
        _ => (V1, v1(&stats, kills)),
    };
    Ok(Writer::default().text(1, kind).bytes(2, &metrics).done())
}

fn pids(stats: &Stats) -> Vec<u8> {
    let pids = stats.pids.unwrap_or_default();
    let message = Writer::default().number(1, pids.current);
    message.number(2, pids.limit.unwrap_or(0)).done()
}

fn v1(stats: &Stats, kills: u64) -> Vec<u8> {
    let mut metrics = Writer::default();
    for hugetlb in &stats.hugetlb {
        let entry = Writer::default()
            .number(1, hugetlb.usage)
            .number(2, hugetlb.peak.unwrap_or(0))
            .text(4, &hugetlb.page_size);
        metrics = metrics.message(1, &entry.done());
    }
    metrics = metrics.message(2, &pids(stats));
    if let Some(cpu) = &stats.cpu {
        let usage = Writer::default()
            .number(1, cpu.usage_ns)
            .number(2, cpu.system_ns)
            .number(3, cpu.user_ns);
        let throttling = Writer::default()
            .number(1, cpu.periods)
            .number(2, cpu.throttled_periods)
            .number(3, cpu.throttled_ns);
        let cpu = Writer::default().message(1, &usage.done());
        metrics = metrics.message(3, &cpu.message(2, &throttling.done()).done());
    }
    if let Some(memory) = &stats.memory {
        metrics = metrics.message(4, &v1_memory(memory));
    }
    let mut io = Writer::default();
    for device in &stats.io {
        for (field, operation, value) in [
            (1, "read", device.read_bytes),
            (1, "write", device.write_bytes),
            (2, "read", device.reads),
            (2, "write", device.writes),
        ] {
            let entry = Writer::default()
                .text(1, operation)
                .number(3, device.major.into())
                .number(4, device.minor.into())
                .number(5, value);
            io = io.message(field, &entry.done());
        }
    }
    metrics = metrics.message(5, &io.done());
    let oom = Writer::default().number(3, kills);
    metrics.message(9, &oom.done()).done()
}

fn v1_memory(memory: &MemoryStats) -> Vec<u8> {
    let entry = |limit: Option<u64>, usage: u64, peak: u64, failures: u64| {
        let entry = Writer::default().number(1, limit.unwrap_or(u64::MAX));
        entry
            .number(2, usage)
            .number(3, peak)
            .number(4, failures)
            .done()
    };
    let peak = memory.peak.unwrap_or(0);
    let usage = entry(memory.limit, memory.usage, peak, memory.failures);
    let mut message = Writer::default()
        .number(1, memory.cache)
        .number(2, memory.rss)
        .number(4, memory.mapped_file)
        .number(9, memory.own_page_faults)
        .number(10, memory.own_major_page_faults)
        .number(13, memory.inactive_file)
        .number(14, memory.active_file)
        .number(16, memory.limit.unwrap_or(u64::MAX))
        .number(18, memory.cache)
        .number(19, memory.rss)
        .number(21, memory.mapped_file)
        .number(26, memory.page_faults)
        .number(27, memory.major_page_faults)
        .number(30, memory.inactive_file)
        .number(31, memory.active_file)
        .message(33, &usage);
    if let Some(swap) = memory.swap_usage {
        // Version 1 counts memory with it.
        let both = entry(memory.swap_limit, memory.usage + swap, 0, 0);
        message = message.message(34, &both);
    }
    message
        .message(35, &entry(None, memory.kernel, 0, 0))
        .done()
}

fn v2(stats: &Stats, kills: u64) -> Vec<u8> {
    let mut metrics = Writer::default().message(1, &pids(stats));
    if let Some(cpu) = &stats.cpu {
        // Microseconds.
        let cpu = Writer::default()
            .number(1, cpu.usage_ns / 1000)
            .number(2, cpu.user_ns / 1000)
            .number(3, cpu.system_ns / 1000)
            .number(4, cpu.periods)
            .number(5, cpu.throttled_periods)
            .number(6, cpu.throttled_ns / 1000)
            .number(8, cpu.bursts)
            .number(9, cpu.burst_ns / 1000);
        metrics = metrics.message(2, &cpu.done());
    }
    if let Some(memory) = &stats.memory {
        let memory = Writer::default()
            .number(1, memory.rss)
            .number(2, memory.cache)
            .number(7, memory.mapped_file)
            .number(13, memory.inactive_file)
            .number(14, memory.active_file)
            .number(18, memory.page_faults)
            .number(19, memory.major_page_faults)
            .number(32, memory.usage)
            .number(33, memory.limit.unwrap_or(u64::MAX))
            .number(34, memory.swap_usage.unwrap_or(0))
            .number(35, memory.swap_limit.unwrap_or(u64::MAX))
            .number(36, memory.peak.unwrap_or(0));
        metrics = metrics.message(4, &memory.done());
    }
    let mut io = Writer::default();
    for device in &stats.io {
        let entry = Writer::default()
            .number(1, device.major.into())
            .number(2, device.minor.into())
            .number(3, device.read_bytes)
            .number(4, device.write_bytes)
            .number(5, device.reads)
            .number(6, device.writes);
        io = io.message(1, &entry.done());
    }
    metrics = metrics.message(6, &io.done());
    for hugetlb in &stats.hugetlb {
        let entry = Writer::default()
            .number(1, hugetlb.usage)
            .number(2, hugetlb.peak.unwrap_or(0))
            .text(3, &hugetlb.page_size);
        metrics = metrics.message(7, &entry.done());
    }
    let oom = Writer::default().number(5, kills);
    metrics.message(8, &oom.done()).done()
}
