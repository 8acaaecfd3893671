//! Resource usage of a cgroup v1.

use super::document::{Blkio, BlkioEntry, Cpu, Cpuset, Hugetlb, Memory, MemoryEntry, Pids, Stats};
use super::read::{if_there, keys, list, number, number_of, numbers};
use crate::cgroup::dirs::Dirs;
use crate::cgroup::files::{Dir, Failed};

/// Nanoseconds per clock tick, the kernel's unit of CPU times.
const TICK: u64 = 10_000_000;

pub(super) fn read(dirs: &Dirs<'_>) -> Result<Stats, Failed> {
    let mut stats = Stats::default();
    if let Some(dir) = dirs.find("cpuacct") {
        accounted(dir, &mut stats.cpu)?;
    }
    if let Some(dir) = dirs.find("cpu") {
        for (key, value) in keys(&dir.read("cpu.stat")?) {
            match key {
                "nr_periods" => stats.cpu.throttling.periods = value,
                "nr_throttled" => stats.cpu.throttling.throttled_periods = value,
                "throttled_time" => stats.cpu.throttling.throttled_time = value,
                _ => {}
            }
        }
    }
    if let Some(dir) = dirs.find("cpuset") {
        stats.cpuset = cpuset(dir)?;
    }
    if let Some(dir) = dirs.find("memory") {
        stats.memory = memory(dir)?;
    }
    if let Some(dir) = dirs.find("pids") {
        let limit = number_of(dir, "pids.max")?.filter(|it| *it != u64::MAX);
        stats.pids = Pids {
            current: number_of(dir, "pids.current")?.unwrap_or(0),
            limit: limit.unwrap_or(0),
        };
    }
    if let Some(dir) = dirs.find("blkio") {
        stats.blkio = blkio(dir)?;
    }
    if let Some(dir) = dirs.find("hugetlb") {
        for size in orlop_cgroup::hugepage_sizes() {
            let told = match hugetlb(dir, &format!("hugetlb.{size}.rsvd"))? {
                None => hugetlb(dir, &format!("hugetlb.{size}"))?,
                told => told,
            };
            stats.hugetlb.insert(size, told.unwrap_or_default());
        }
    }
    Ok(stats)
}

fn accounted(dir: &Dir, cpu: &mut Cpu) -> Result<(), Failed> {
    let usage = &mut cpu.usage;
    usage.total = number(&dir.read("cpuacct.usage")?);
    usage.percpu = numbers(&dir.read("cpuacct.usage_percpu")?);
    for (key, value) in keys(&dir.read("cpuacct.stat")?) {
        match key {
            "user" => usage.user = value * TICK,
            "system" => usage.kernel = value * TICK,
            _ => {}
        }
    }
    // `cpu user system`, one line per CPU.
    for line in if_there(dir.read("cpuacct.usage_all"))?
        .unwrap_or_default()
        .lines()
        .skip(1)
    {
        if let [_, user, kernel] = numbers(line)[..] {
            usage.percpu_user.push(user);
            usage.percpu_kernel.push(kernel);
        }
    }
    Ok(())
}

fn cpuset(dir: &Dir) -> Result<Cpuset, Failed> {
    let flag = |name: &str| Ok(number_of(dir, &format!("cpuset.{name}"))?.unwrap_or(0));
    let level = if_there(dir.read("cpuset.sched_relax_domain_level"))?;
    Ok(Cpuset {
        cpus: list(&dir.read("cpuset.cpus")?),
        cpu_exclusive: flag("cpu_exclusive")?,
        mems: list(&dir.read("cpuset.mems")?),
        mem_hardwall: flag("mem_hardwall")?,
        mem_exclusive: flag("mem_exclusive")?,
        memory_migrate: flag("memory_migrate")?,
        memory_spread_page: flag("memory_spread_page")?,
        memory_spread_slab: flag("memory_spread_slab")?,
        memory_pressure: flag("memory_pressure")?,
        sched_load_balance: flag("sched_load_balance")?,
        sched_relax_domain_level: level.and_then(|it| it.trim().parse().ok()).unwrap_or(0),
    })
}

fn memory(dir: &Dir) -> Result<Memory, Failed> {
    let told = dir.read("memory.stat")?;
    let raw = keys(&told)
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    Ok(Memory {
        cache: keys(&told)
            .find(|(key, _)| *key == "cache")
            .map_or(0, |(_, value)| value),
        usage: entry(dir, "memory")?,
        swap: entry(dir, "memory.memsw")?,
        kernel: entry(dir, "memory.kmem")?,
        kernel_tcp: entry(dir, "memory.kmem.tcp")?,
        raw,
        psi: None,
    })
}

fn entry(dir: &Dir, of: &str) -> Result<MemoryEntry, Failed> {
    let Some(usage) = number_of(dir, &format!("{of}.usage_in_bytes"))? else {
        return Ok(MemoryEntry::default());
    };
    let of = |file: &str| Ok(number_of(dir, &format!("{of}.{file}"))?.unwrap_or(0));
    Ok(MemoryEntry {
        limit: of("limit_in_bytes")?,
        usage,
        max: of("max_usage_in_bytes")?,
        failcnt: of("failcnt")?,
    })
}

/// Reads the block I/O counters of the scheduler in use: the weighing scheduler reports most, throttling always reports
/// some.
fn blkio(dir: &Dir) -> Result<Blkio, Failed> {
    let entries = |file: &str| Ok(if_there(dir.read(file))?.map(|text| self::entries(&text)));
    for start in ["blkio.bfq.", "blkio."] {
        let of = |name: &str| entries(&format!("{start}{name}_recursive"));
        if let Some(sectors_recursive) = of("sectors")? {
            return Ok(Blkio {
                sectors_recursive,
                io_service_bytes_recursive: of("io_service_bytes")?.unwrap_or_default(),
                io_serviced_recursive: of("io_serviced")?.unwrap_or_default(),
                io_queued_recursive: of("io_queued")?.unwrap_or_default(),
                io_service_time_recursive: of("io_service_time")?.unwrap_or_default(),
                io_wait_time_recursive: of("io_wait_time")?.unwrap_or_default(),
                io_merged_recursive: of("io_merged")?.unwrap_or_default(),
                io_time_recursive: of("time")?.unwrap_or_default(),
                psi: None,
            });
        }
    }
    let mut blkio = Blkio::default();
    for (start, end) in [
        ("blkio.bfq.", "_recursive"),
        ("blkio.throttle.", "_recursive"),
        ("blkio.throttle.", ""),
    ] {
        let counted = entries(&format!("{start}io_serviced{end}"))?;
        let bytes = entries(&format!("{start}io_service_bytes{end}"))?;
        if let Some(counted) = counted.filter(|it| !it.is_empty()) {
            blkio.io_serviced_recursive = counted;
            blkio.io_service_bytes_recursive = bytes.unwrap_or_default();
            break;
        }
    }
    Ok(blkio)
}

/// Parses lines `major:minor operation value` or `major:minor value`.
fn entries(text: &str) -> Vec<BlkioEntry> {
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let (major, minor) = words.next()?.split_once(':')?;
        let (first, second) = (words.next()?, words.next());
        let (op, value) = second.map_or(("", first), |second| (first, second));
        Some(BlkioEntry {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
            op: op.to_owned(),
            value: value.parse().ok()?,
        })
    };
    text.lines().filter_map(entry).collect()
}

fn hugetlb(dir: &Dir, of: &str) -> Result<Option<Hugetlb>, Failed> {
    let Some(usage) = number_of(dir, &format!("{of}.usage_in_bytes"))? else {
        return Ok(None);
    };
    Ok(Some(Hugetlb {
        usage,
        max: number_of(dir, &format!("{of}.max_usage_in_bytes"))?.unwrap_or(0),
        failcnt: number_of(dir, &format!("{of}.failcnt"))?.unwrap_or(0),
    }))
}
