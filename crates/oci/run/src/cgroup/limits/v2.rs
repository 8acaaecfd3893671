//! Limits for cgroup v2.

use orlop_cgroup::{cpu_weight, io_weight};
use orlop_oci_types::{BlockIo, Cpu, Memory, Rdma, Resources};
use rustix::io::Errno;

use super::values::{need_controllers, pids, some};
use crate::cgroup::dirs::Dirs;
use crate::cgroup::files::Dir;
use crate::error::{Error, Result};

/// The default period of `cpu.max`.
const PERIOD: u64 = 100_000;

pub(super) fn set(dirs: &Dirs<'_>, resources: &Resources) -> Result<()> {
    let Some(dir) = dirs.find("") else {
        let needed = need_controllers(resources);
        return if needed {
            dirs.of("any").map(drop)
        } else {
            Ok(())
        };
    };
    if let Some(limit) = resources.pids.as_ref().and_then(|it| it.limit) {
        dir.write("pids.max", pids(limit))?;
    }
    if let Some(it) = &resources.memory {
        memory(dir, it)?;
    }
    if let Some(it) = &resources.block_io {
        block_io(dir, it)?;
    }
    if let Some(it) = &resources.cpu {
        cpu(dir, it)?;
        if !it.cpus.is_empty() {
            dir.write("cpuset.cpus", &it.cpus)?;
        }
        if !it.mems.is_empty() {
            dir.write("cpuset.mems", &it.mems)?;
        }
    }
    let mut reserved = true;
    for it in &resources.hugepage_limits {
        dir.write(&format!("hugetlb.{}.max", it.page_size), it.limit)?;
        if reserved {
            match dir.write(&format!("hugetlb.{}.rsvd.max", it.page_size), it.limit) {
                Err(failed) if failed.is_not_found() => reserved = false,
                written => written?,
            }
        }
    }
    for (device, it) in &resources.rdma {
        dir.write("rdma.max", rdma(device, it))?;
    }
    for (file, value) in &resources.unified {
        unified(dir, file, value)?;
    }
    Ok(())
}

fn memory(dir: &Dir, memory: &Memory) -> Result<()> {
    let said = [memory.limit, memory.swap, memory.reservation];
    if said.into_iter().all(|it| some(it).is_none()) {
        return Ok(());
    }
    refuse_what_is_in_use(dir, memory)?;
    let swap = swap_alone(memory)?;
    if let Some(swap) = swap {
        match dir.write("memory.swap.max", or_max(swap)) {
            // If swap is not counted, there is no limit to lift and no swap to forbid.
            Err(failed) if failed.is_not_found() && swap <= 0 => {}
            written => written?,
        }
    }
    if let Some(limit) = some(memory.limit) {
        dir.write("memory.max", or_max(limit))?;
    }
    if let Some(reservation) = some(memory.reservation) {
        dir.write("memory.low", or_max(reservation))?;
    }
    Ok(())
}

/// Returns the swap limit for cgroup v2, which does not include memory as in the specification; -1 for none.
pub(crate) fn swap_alone(memory: &Memory) -> Result<Option<i64>> {
    let limit = memory.limit.unwrap_or(0);
    match memory.swap.unwrap_or(0) {
        // Without a memory limit there is no combined limit either.
        0 => Ok((limit == -1).then_some(-1)),
        -1 => Ok(Some(-1)),
        swap if limit == -1 => Ok(Some(swap)),
        _ if limit == 0 => Err(Error::new("unable to set swap limit without memory limit")),
        _ if limit < 0 => Err(Error::new(format!("invalid memory value: {limit}"))),
        swap if swap < limit => Err(Error::new("memory+swap limit should be >= memory limit")),
        swap => Ok(Some(swap - limit)),
    }
}

/// Refuses a limit below the current usage: cgroup v1 refuses it too, but cgroup v2 would kill processes.
pub(super) fn refuse_what_is_in_use(dir: &Dir, memory: &Memory) -> Result<()> {
    if memory.check_before_update != Some(true) {
        return Ok(());
    }
    let usage = dir.read("memory.current").ok();
    let Some(usage) = usage.and_then(|it| it.trim().parse::<i64>().ok()) else {
        return Ok(());
    };
    for (what, limit) in [("memory+swap", memory.swap), ("memory", memory.limit)] {
        if let Some(limit) = limit.filter(|it| (1..=usage).contains(it)) {
            return Err(Error::new(format!(
                "rejecting {what} limit {limit} <= usage {usage}"
            )));
        }
    }
    Ok(())
}

fn block_io(dir: &Dir, io: &BlockIo) -> Result<()> {
    let weight = some(io.weight);
    if weight.is_some() || !io.weight_device.is_empty() {
        match dir.file("io.bfq.weight") {
            Ok(file) => {
                if let Some(weight) = weight {
                    file.write(weight)?;
                }
                // Older kernels have no weights for devices, and show only one number.
                let told = dir.read("io.bfq.weight")?;
                if told.trim().parse::<i64>().is_err() {
                    for it in &io.weight_device {
                        let weight = it.weight.unwrap_or(0);
                        file.write(format_args!("{}:{} {weight}\n", it.major, it.minor))?;
                    }
                }
            }
            Err(failed) if failed.errno == Errno::NOENT => {
                if let Some(weight) = weight {
                    dir.write("io.weight", io_weight(weight))?;
                }
            }
            Err(failed) => return Err(failed.into()),
        }
    }
    for (key, throttles) in [
        ("rbps", &io.throttle_read_bps_device),
        ("wbps", &io.throttle_write_bps_device),
        ("riops", &io.throttle_read_iops_device),
        ("wiops", &io.throttle_write_iops_device),
    ] {
        for it in throttles {
            let line = format!("{}:{} {key}={}", it.major, it.minor, it.rate);
            dir.write("io.max", line)?;
        }
    }
    Ok(())
}

fn cpu(dir: &Dir, cpu: &Cpu) -> Result<()> {
    if let Some(idle) = cpu.idle {
        dir.write("cpu.idle", idle)?;
    }
    if let Some(shares) = some(cpu.shares) {
        dir.write("cpu.weight", cpu_weight(shares))?;
    }
    let (quota, period) = (some(cpu.quota), some(cpu.period));
    let mut late = None;
    if let Some(burst) = cpu.burst {
        match dir.write("cpu.max.burst", burst) {
            // It may fit once the quota is set.
            Err(failed) if failed.errno == Errno::INVAL && quota.is_some() => late = Some(burst),
            written => written?,
        }
    }
    if quota.is_none() && period.is_none() {
        return Ok(());
    }
    // The file takes both at once.
    let quota = quota.filter(|it| *it > 0).unwrap_or(-1);
    let period = period.unwrap_or(PERIOD);
    let quota = or_max(quota);
    dir.write("cpu.max", format_args!("{quota} {period}"))?;
    if let Some(burst) = late {
        dir.write("cpu.max.burst", burst)?;
    }
    Ok(())
}

fn unified(dir: &Dir, file: &str, value: &str) -> Result<()> {
    // The kernel takes one line per write.
    let lines = value.split_inclusive('\n');
    let mut written = lines.map(|line| dir.write(file, line));
    let Err(failed) = written.try_for_each(|it| it) else {
        return Ok(());
    };
    if failed.is_not_found() || failed.is_for_want_of_rights() {
        let Some((controller, _)) = file.split_once('.') else {
            return Err(Error::new(format!(
                "unified resource {file:?} must be in the form CONTROLLER.PARAMETER"
            )));
        };
        let here = dir.read("cgroup.controllers").unwrap_or_default();
        if controller != "cgroup" && !here.split_whitespace().any(|it| it == controller) {
            return Err(Error::new(format!(
                "unified resource {file:?} can't be set: controller {controller:?} not available"
            )));
        }
    }
    Err(Error::from(failed).within(format!("unable to set unified resource {file:?}")))
}

/// Formats a line of `rdma.max`.
pub(super) fn rdma(device: &str, limit: &Rdma) -> String {
    let mut line = device.to_owned();
    for (key, value) in [
        ("hca_handle", limit.hca_handles),
        ("hca_object", limit.hca_objects),
    ] {
        if let Some(value) = value {
            line += " ";
            line += key;
            line += "=";
            line += &value.to_string();
        }
    }
    line
}

fn or_max(value: i64) -> String {
    match value {
        -1 => "max".to_owned(),
        value => value.to_string(),
    }
}
