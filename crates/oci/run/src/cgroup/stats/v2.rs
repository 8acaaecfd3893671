//! Resource usage of a cgroup v2.

use super::document::{Blkio, BlkioEntry, Cpu, Hugetlb, Memory, MemoryEntry, Pids, Stats};
use super::read::{if_there, keys, number_of, pressure};
use crate::cgroup::dirs::Dirs;
use crate::cgroup::files::{Dir, Failed};

pub(super) fn read(dirs: &Dirs<'_>) -> Result<Stats, Failed> {
    let mut stats = Stats::default();
    let Some(dir) = dirs.find("") else {
        return Ok(stats);
    };
    stats.pids = pids(dir)?;
    stats.memory = memory(dir)?;
    stats.blkio = io(dir)?;
    stats.cpu = cpu(dir)?;
    for size in orlop_cgroup::hugepage_sizes() {
        if let Some(told) = hugetlb(dir, &size)? {
            stats.hugetlb.insert(size, told);
        }
    }
    Ok(stats)
}

fn pids(dir: &Dir) -> Result<Pids, Failed> {
    let Some(current) = number_of(dir, "pids.current")? else {
        // Without the controller the processes can be counted.
        let listed = dir
            .read("cgroup.procs")
            .or_else(|_| dir.read("cgroup.threads"))?;
        let current = listed.lines().count() as u64;
        return Ok(Pids { current, limit: 0 });
    };
    let limit = number_of(dir, "pids.max")?.filter(|it| *it != u64::MAX);
    Ok(Pids {
        current,
        limit: limit.unwrap_or(0),
    })
}

fn memory(dir: &Dir) -> Result<Memory, Failed> {
    let Some(told) = if_there(dir.read("memory.stat"))? else {
        return Ok(Memory::default());
    };
    let usage = entry(dir, "memory")?;
    let mut swap = entry(dir, "memory.swap")?;
    // Memory and swap together, as with cgroup v1.
    swap.usage += usage.usage;
    if swap.limit != u64::MAX {
        swap.limit = swap.limit.saturating_add(usage.limit);
    }
    swap.max = 0;
    Ok(Memory {
        cache: keys(&told)
            .find(|(key, _)| *key == "file")
            .map_or(0, |(_, value)| value),
        usage,
        swap,
        raw: keys(&told)
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
        psi: pressure(dir, "memory.pressure"),
        ..Memory::default()
    })
}

fn entry(dir: &Dir, of: &str) -> Result<MemoryEntry, Failed> {
    let Some(usage) = number_of(dir, &format!("{of}.current"))? else {
        return Ok(MemoryEntry::default());
    };
    Ok(MemoryEntry {
        limit: number_of(dir, &format!("{of}.max"))?.unwrap_or(0),
        usage,
        max: number_of(dir, &format!("{of}.peak"))?.unwrap_or(0),
        failcnt: 0,
    })
}

/// Parses lines `major:minor key=value …`.
fn io(dir: &Dir) -> Result<Blkio, Failed> {
    let mut blkio = Blkio {
        psi: pressure(dir, "io.pressure"),
        ..Blkio::default()
    };
    for line in if_there(dir.read("io.stat"))?.unwrap_or_default().lines() {
        let mut words = line.split_whitespace();
        let device = words.next().and_then(|word| word.split_once(':'));
        let Some((major, minor)) = device else {
            continue;
        };
        let (Ok(major), Ok(minor)) = (major.parse(), minor.parse()) else {
            continue;
        };
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            let (list, op) = match key {
                "rbytes" => (&mut blkio.io_service_bytes_recursive, "Read"),
                "wbytes" => (&mut blkio.io_service_bytes_recursive, "Write"),
                "rios" => (&mut blkio.io_serviced_recursive, "Read"),
                "wios" => (&mut blkio.io_serviced_recursive, "Write"),
                _ => continue,
            };
            let value = value.parse().unwrap_or(0);
            list.push(BlkioEntry {
                major,
                minor,
                op: op.to_owned(),
                value,
            });
        }
    }
    Ok(blkio)
}

fn cpu(dir: &Dir) -> Result<Cpu, Failed> {
    let mut cpu = Cpu {
        psi: pressure(dir, "cpu.pressure"),
        ..Cpu::default()
    };
    // This file also exists without the controller.
    for (key, microseconds) in keys(&dir.read("cpu.stat")?) {
        let nanoseconds = microseconds.saturating_mul(1000);
        match key {
            "usage_usec" => cpu.usage.total = nanoseconds,
            "user_usec" => cpu.usage.user = nanoseconds,
            "system_usec" => cpu.usage.kernel = nanoseconds,
            "nr_periods" => cpu.throttling.periods = microseconds,
            "nr_throttled" => cpu.throttling.throttled_periods = microseconds,
            "throttled_usec" => cpu.throttling.throttled_time = nanoseconds,
            _ => {}
        }
    }
    Ok(cpu)
}

fn hugetlb(dir: &Dir, size: &str) -> Result<Option<Hugetlb>, Failed> {
    let of = |end: &str| number_of(dir, &format!("hugetlb.{size}{end}.current"));
    let Some(usage) = (match of(".rsvd")? {
        None => of("")?,
        usage => usage,
    }) else {
        return Ok(None);
    };
    let events = if_there(dir.read(&format!("hugetlb.{size}.events")))?.unwrap_or_default();
    let failcnt = keys(&events)
        .find(|(key, _)| *key == "max")
        .map_or(0, |(_, value)| value);
    Ok(Some(Hugetlb {
        usage,
        max: 0,
        failcnt,
    }))
}
