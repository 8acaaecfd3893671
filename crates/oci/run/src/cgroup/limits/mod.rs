//! Limits, written in the words of the version in force.

mod v1;
mod v2;

use orlop_oci_types::{BlockIo, Cpu, Memory, Resources};

pub(super) use v2::swap_alone;

use super::make::Dirs;
use crate::error::{Error, Result};

/// Sets limits; what is not said stays as it is, and so does what is said to be 0 where that is no limit.
pub(super) fn set(dirs: &Dirs<'_>, resources: &Resources) -> Result<()> {
    check(resources, if dirs.is_v2() { 2 } else { 1 })?;
    if dirs.is_v2() {
        v2::set(dirs, resources)
    } else {
        v1::set(dirs, resources)
    }
}

/// Refuses what no cgroup of this version can have.
pub(super) fn check(resources: &Resources, version: u8) -> Result<()> {
    if let Some(swappiness) = resources.memory.as_ref().and_then(|it| it.swappiness)
        && version == 1
        && (101..u64::MAX).contains(&swappiness)
    {
        return Err(Error::new(format!(
            "invalid memory swappiness value: {swappiness} (valid range is 0-100)"
        )));
    }
    if version == 1 && !resources.unified.is_empty() {
        return Err(Error::new(
            "invalid configuration: cannot use unified on cgroup v1",
        ));
    }
    if version == 2 {
        if let Some(memory) = &resources.memory {
            v2::swap_alone(memory)?;
        }
        if let Some(file) = resources.unified.keys().find(|it| it.contains('/')) {
            return Err(Error::new(format!(
                "unified resource {file:?} must be a file name (no slashes)"
            )));
        }
    }
    Ok(())
}

/// Refuses limits below what is in use, where that is wanted and version 2 would kill instead.
pub(super) fn refuse_what_is_in_use(dirs: &Dirs<'_>, resources: &Resources) -> Result<()> {
    match (
        dirs.is_v2().then(|| dirs.find("")).flatten(),
        &resources.memory,
    ) {
        (Some(dir), Some(memory)) => v2::refuse_what_is_in_use(dir, memory),
        _ => Ok(()),
    }
}

/// Whether there are limits for which version 2 needs a controller.
pub(super) fn need_controllers(resources: &Resources) -> bool {
    let pids = resources.pids.as_ref().is_some_and(|it| it.limit.is_some());
    let cpuset = |it: &Cpu| !it.cpus.is_empty() || !it.mems.is_empty();
    pids || need_a_domain(resources) || resources.cpu.as_ref().is_some_and(cpuset)
}

/// Whether there are limits that threads cannot have each for itself.
pub(super) fn need_a_domain(resources: &Resources) -> bool {
    let memory = |it: &Memory| {
        [it.limit, it.reservation, it.swap]
            .into_iter()
            .flatten()
            .any(|it| it != 0)
    };
    let io = |it: &BlockIo| {
        let throttles = [
            &it.throttle_read_bps_device,
            &it.throttle_write_bps_device,
            &it.throttle_read_iops_device,
            &it.throttle_write_iops_device,
        ];
        some(it.weight).is_some()
            || !it.weight_device.is_empty()
            || throttles.iter().any(|it| !it.is_empty())
    };
    let cpu = |it: &Cpu| {
        some(it.shares).is_some()
            || some(it.quota).is_some()
            || some(it.period).is_some()
            || it.idle.is_some()
            || it.burst.is_some()
    };
    resources.memory.as_ref().is_some_and(memory)
        || resources.block_io.as_ref().is_some_and(io)
        || resources.cpu.as_ref().is_some_and(cpu)
        || !resources.hugepage_limits.is_empty()
}

/// A value where it says something: many take 0 for none.
pub(super) fn some<T: Default + PartialEq>(value: Option<T>) -> Option<T> {
    value.filter(|value| *value != T::default())
}

/// How many processes there may be. systemd knows no limit of none, which would differ little from one.
pub(super) fn pids(limit: i64) -> String {
    match limit {
        ..0 => "max".to_owned(),
        limit => limit.max(1).to_string(),
    }
}

#[cfg(test)]
mod tests;
