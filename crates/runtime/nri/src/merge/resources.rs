//! Merges resources, field by field.

use super::Owners;
use crate::error::Result;
use crate::v1alpha1::{Field, LinuxResources};

/// Makes `plugin` the owner of all fields that are set; an error if another plugin owns one.
pub(super) fn claim(
    owners: &mut Owners,
    container: &str,
    plugin: &str,
    wanted: &LinuxResources,
) -> Result<()> {
    let memory = wanted.memory.unwrap_or_default();
    let cpu = wanted.cpu.clone().unwrap_or_default();
    for (set, field) in [
        (memory.limit.is_some(), Field::MemLimit),
        (memory.reservation.is_some(), Field::MemReservation),
        (memory.swap.is_some(), Field::MemSwapLimit),
        (memory.kernel.is_some(), Field::MemKernelLimit),
        (memory.kernel_tcp.is_some(), Field::MemTcpLimit),
        (memory.swappiness.is_some(), Field::MemSwappiness),
        (
            memory.disable_oom_killer.is_some(),
            Field::MemDisableOomKiller,
        ),
        (memory.use_hierarchy.is_some(), Field::MemUseHierarchy),
        (cpu.shares.is_some(), Field::CpuShares),
        (cpu.quota.is_some(), Field::CpuQuota),
        (cpu.period.is_some(), Field::CpuPeriod),
        (cpu.realtime_runtime.is_some(), Field::CpuRealtimeRuntime),
        (cpu.realtime_period.is_some(), Field::CpuRealtimePeriod),
        (!cpu.cpus.is_empty(), Field::CpuSetCpUs),
        (!cpu.mems.is_empty(), Field::CpuSetMems),
        (wanted.blockio_class.is_some(), Field::BlockioClass),
        (wanted.rdt_class.is_some(), Field::RdtClass),
        (wanted.pids.is_some(), Field::PidsLimit),
    ] {
        if set {
            owners.claim(container, field, plugin)?;
        }
    }
    for limit in &wanted.hugepage_limits {
        owners.claim_entry(container, Field::HugepageLimits, &limit.page_size, plugin)?;
    }
    for name in wanted.unified.keys() {
        owners.claim_entry(container, Field::CgroupsUnified, name, plugin)?;
    }
    Ok(())
}

/// Copies all fields that are set in `wanted`.
pub fn overlay(wanted: &LinuxResources, into: &mut LinuxResources) {
    macro_rules! take {
        ($from:expr, $to:expr, $($name:ident),*) => {
            $( if $from.$name.is_some() { $to.$name = $from.$name.clone(); } )*
        };
    }
    if let Some(memory) = &wanted.memory {
        let into = into.memory.get_or_insert_default();
        take!(
            memory,
            into,
            limit,
            reservation,
            swap,
            kernel,
            kernel_tcp,
            swappiness
        );
        take!(memory, into, disable_oom_killer, use_hierarchy);
    }
    if let Some(cpu) = &wanted.cpu {
        let into = into.cpu.get_or_insert_default();
        take!(
            cpu,
            into,
            shares,
            quota,
            period,
            realtime_runtime,
            realtime_period
        );
        for (from, to) in [(&cpu.cpus, &mut into.cpus), (&cpu.mems, &mut into.mems)] {
            if !from.is_empty() {
                from.clone_into(to);
            }
        }
    }
    take!(wanted, into, blockio_class, rdt_class, pids);
    for limit in &wanted.hugepage_limits {
        into.hugepage_limits
            .retain(|own| own.page_size != limit.page_size);
        into.hugepage_limits.push(limit.clone());
    }
    into.unified.extend(wanted.unified.clone());
    into.devices.extend(wanted.devices.iter().cloned());
}
