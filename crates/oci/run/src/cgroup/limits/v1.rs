//! Limits for cgroup v1.

use orlop_oci_types::{BlockIo, Cpu, Memory, Resources};
use rustix::io::Errno;

use super::values::{pids, some};
use crate::cgroup::dirs::Dirs;
use crate::cgroup::files::{Dir, Failed};
use crate::error::{Error, Result};

pub(super) fn set(dirs: &Dirs<'_>, resources: &Resources) -> Result<()> {
    if let Some(it) = &resources.cpu {
        if !it.cpus.is_empty() {
            dirs.of("cpuset")?.write("cpuset.cpus", &it.cpus)?;
        }
        if !it.mems.is_empty() {
            dirs.of("cpuset")?.write("cpuset.mems", &it.mems)?;
        }
        cpu(dirs, it)?;
    }
    if let Some(it) = &resources.memory {
        memory(dirs, it)?;
    }
    if let Some(limit) = resources.pids.as_ref().and_then(|it| it.limit) {
        dirs.of("pids")?.write("pids.max", pids(limit))?;
    }
    if let Some(it) = &resources.block_io {
        block_io(dirs, it)?;
    }
    let mut reserved = true;
    for it in &resources.hugepage_limits {
        let dir = dirs.of("hugetlb")?;
        let size = &it.page_size;
        dir.write(&format!("hugetlb.{size}.limit_in_bytes"), it.limit)?;
        if reserved {
            reserved =
                if_there(dir.write(&format!("hugetlb.{size}.rsvd.limit_in_bytes"), it.limit))?;
        }
    }
    if let Some(network) = &resources.network {
        if let Some(class) = some(network.class_id) {
            dirs.of("net_cls")?.write("net_cls.classid", class)?;
        }
        for it in &network.priorities {
            let line = format!("{} {}", it.name, it.priority);
            dirs.of("net_prio")?.write("net_prio.ifpriomap", line)?;
        }
    }
    for (device, it) in &resources.rdma {
        dirs.of("rdma")?
            .write("rdma.max", super::v2::rdma(device, it))?;
    }
    Ok(())
}

/// Sets CPU limits. Quota, period and burst must fit each other and the parent cgroups after each write. A value that
/// does not fit at first may fit once the quota is set.
fn cpu(dirs: &Dirs<'_>, cpu: &Cpu) -> Result<()> {
    if let Some(shares) = some(cpu.shares) {
        // `MIN_SHARES` and `MAX_SHARES` of the kernel, to which it would round silently.
        match shares {
            ..2 => return Err(Error::new("the minimum allowed cpu-shares is 2")),
            262_145.. => return Err(Error::new("the maximum allowed cpu-shares is 262144")),
            _ => dirs.of("cpu")?.write("cpu.shares", shares)?,
        }
    }
    let quota = some(cpu.quota);
    let early = |written: Result<(), Failed>| match written {
        Err(failed) if failed.errno == Errno::INVAL && quota.is_some() => Ok(false),
        written => written.map(|()| true),
    };
    let mut late: Vec<(&str, u64)> = Vec::new();
    if let Some(period) = some(cpu.period)
        && !early(dirs.of("cpu")?.write("cpu.cfs_period_us", period))?
    {
        late.push(("cpu.cfs_period_us", period));
    }
    if let Some(burst) = cpu.burst {
        let written = dirs.of("cpu")?.write("cpu.cfs_burst_us", burst);
        // Older kernels do not have this file.
        if !matches!(&written, Err(failed) if failed.is_not_found()) && !early(written)? {
            late.push(("cpu.cfs_burst_us", burst));
        }
    }
    if let Some(quota) = quota {
        let dir = dirs.of("cpu")?;
        dir.write("cpu.cfs_quota_us", quota)?;
        for (file, value) in late {
            dir.write(file, value)?;
        }
    }
    if let Some(idle) = cpu.idle {
        dirs.of("cpu")?.write("cpu.idle", idle)?;
    }
    realtime(dirs, cpu)
}

fn realtime(dirs: &Dirs<'_>, cpu: &Cpu) -> Result<()> {
    let (period, runtime) = (some(cpu.realtime_period), some(cpu.realtime_runtime));
    let mut late = None;
    if let Some(period) = period {
        match dirs.of("cpu")?.write("cpu.rt_period_us", period) {
            Err(failed) if failed.errno == Errno::INVAL && runtime.is_some() => late = Some(period),
            written => written?,
        }
    }
    if let Some(runtime) = runtime {
        let dir = dirs.of("cpu")?;
        dir.write("cpu.rt_runtime_us", runtime)?;
        if let Some(period) = late {
            dir.write("cpu.rt_period_us", period)?;
        }
    }
    Ok(())
}

fn memory(dirs: &Dirs<'_>, memory: &Memory) -> Result<()> {
    let (limit, swap) = (some(memory.limit), some(memory.swap));
    if limit.is_some() || swap.is_some() {
        let dir = dirs.of("memory")?;
        match (memory_and_swap(dir, limit, swap), limit) {
            (Err(failed), Some(limit)) if failed.errno == Errno::BUSY => {
                return Err(in_use(dir, limit)?);
            }
            (set, _) => set?,
        }
    }
    if let Some(reservation) = some(memory.reservation) {
        let dir = dirs.of("memory")?;
        dir.write("memory.soft_limit_in_bytes", reservation)?;
    }
    if memory.disable_oom_killer == Some(true) {
        dirs.of("memory")?.write("memory.oom_control", 1)?;
    }
    // All bits stand for -1, which some callers write for "unset".
    if let Some(swappiness) = memory.swappiness.filter(|it| *it != u64::MAX) {
        dirs.of("memory")?.write("memory.swappiness", swappiness)?;
    }
    Ok(())
}

/// Sets memory and swap limits. The memory limit may never exceed that of both: the growing one is written first.
fn memory_and_swap(dir: &Dir, limit: Option<i64>, swap: Option<i64>) -> Result<(), Failed> {
    const BOTH: &str = "memory.memsw.limit_in_bytes";
    let write =
        |name: &str, value: Option<i64>| value.map_or(Ok(()), |value| dir.write(name, value));
    let alone = || write("memory.limit_in_bytes", limit);
    if limit == Some(-1) && swap.is_none() {
        // Without a memory limit there is no combined limit either, if swap is counted at all.
        if_there(dir.write(BOTH, -1))?;
        return alone();
    }
    match alone() {
        Err(failed) if failed.errno == Errno::INVAL && swap.is_some() => {
            write(BOTH, swap)?;
            alone()
        }
        alone => alone.and_then(|()| write(BOTH, swap)),
    }
}

/// Returns the error for a limit that the kernel refuses because more is in use.
fn in_use(dir: &Dir, limit: i64) -> Result<Error, Failed> {
    let usage = dir.read("memory.usage_in_bytes")?;
    let peak = dir.read("memory.max_usage_in_bytes")?;
    Ok(Error::new(format!(
        "unable to set memory limit to {limit} (current usage: {}, peak usage: {})",
        usage.trim(),
        peak.trim()
    )))
}

fn block_io(dirs: &Dirs<'_>, io: &BlockIo) -> Result<()> {
    // The weighing scheduler has its name in the file name, except an older one.
    let weigh = |name: &str, value: &dyn std::fmt::Display| -> Result<()> {
        let dir = dirs.of("blkio")?;
        if !if_there(dir.write(&format!("blkio.{name}"), value))? {
            dir.write(&format!("blkio.bfq.{name}"), value)?;
        }
        Ok(())
    };
    if let Some(weight) = some(io.weight) {
        weigh("weight", &weight)?;
    }
    if let Some(weight) = some(io.leaf_weight) {
        dirs.of("blkio")?.write("blkio.leaf_weight", weight)?;
    }
    for it in &io.weight_device {
        let device = format!("{}:{}", it.major, it.minor);
        if let Some(weight) = some(it.weight) {
            weigh("weight_device", &format_args!("{device} {weight}"))?;
        }
        if let Some(weight) = some(it.leaf_weight) {
            let line = format!("{device} {weight}");
            dirs.of("blkio")?.write("blkio.leaf_weight_device", line)?;
        }
    }
    for (name, throttles) in [
        ("read_bps", &io.throttle_read_bps_device),
        ("write_bps", &io.throttle_write_bps_device),
        ("read_iops", &io.throttle_read_iops_device),
        ("write_iops", &io.throttle_write_iops_device),
    ] {
        for it in throttles {
            let line = format!("{}:{} {}", it.major, it.minor, it.rate);
            dirs.of("blkio")?
                .write(&format!("blkio.throttle.{name}_device"), line)?;
        }
    }
    Ok(())
}

/// Returns whether the file existed and was written.
fn if_there(written: Result<(), Failed>) -> Result<bool, Failed> {
    match written {
        Err(failed) if failed.is_not_found() => Ok(false),
        written => written.map(|()| true),
    }
}
