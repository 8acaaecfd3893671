//! Resource limits that NRI plugins set.

use orlop_cri_api::v1;
use orlop_nri::v1alpha1::LinuxResources;
use orlop_oci_types::{Cpu, Memory, Pids, Resources};

use super::Error;
use super::input::HostFacts;
use super::resources::{hugepages, list, unified, weigh};

/// Returns the limits that a plugin sets, without device rules and classes. A value that is absent, or zero
/// where zero means no limit, is not set.
pub fn limits(
    wanted: &LinuxResources,
    host: &HostFacts,
    field: &str,
    warnings: &mut Vec<String>,
) -> Result<Resources, Error> {
    let pages: Vec<_> = wanted
        .hugepage_limits
        .iter()
        .map(|limit| v1::HugepageLimit {
            page_size: limit.page_size.clone(),
            limit: limit.limit,
        })
        .collect();
    let mut resources = Resources {
        cpu: wanted
            .cpu
            .as_ref()
            .map(|_| cpu(wanted, field))
            .transpose()?,
        memory: wanted
            .memory
            .as_ref()
            .map(|_| memory(wanted, host, field))
            .transpose()?,
        pids: wanted
            .pids
            .as_ref()
            .filter(|pids| pids.limit != 0)
            .map(|pids| Pids {
                limit: Some(pids.limit.max(-1)),
            }),
        hugepage_limits: hugepages(&pages, host, field, warnings)?,
        unified: unified(&wanted.unified, host, field)?,
        ..Resources::default()
    };
    weigh(&mut resources, host);
    Ok(resources)
}

fn cpu(wanted: &LinuxResources, field: &str) -> Result<Cpu, Error> {
    let cpu = wanted.cpu.clone().unwrap_or_default();
    Ok(Cpu {
        shares: cpu.shares.map(|own| own.value).filter(|value| *value != 0),
        quota: cpu.quota.map(|own| own.value).filter(|value| *value != 0),
        period: cpu.period.map(|own| own.value).filter(|value| *value != 0),
        realtime_runtime: cpu.realtime_runtime.map(|own| own.value),
        realtime_period: cpu.realtime_period.map(|own| own.value),
        cpus: list(&cpu.cpus, &format!("{field}.cpu.cpus"))?,
        mems: list(&cpu.mems, &format!("{field}.cpu.mems"))?,
        ..Cpu::default()
    })
}

fn memory(wanted: &LinuxResources, host: &HostFacts, field: &str) -> Result<Memory, Error> {
    let memory = wanted.memory.unwrap_or_default();
    let bytes = |name: &str, value: Option<i64>| match value {
        Some(value) if value < -1 => Err(Error::invalid(
            format!("{field}.memory.{name}"),
            "must be a number of bytes, or -1 for no limit",
        )),
        other => Ok(other.filter(|value| *value != 0)),
    };
    let limit = bytes("limit", memory.limit.map(|own| own.value))?;
    let swap = bytes("swap", memory.swap.map(|own| own.value))?;
    Ok(Memory {
        limit,
        // Without a swap value there is no swap, as for clients.
        swap: swap.or(limit).filter(|_| host.swap_accounting),
        reservation: bytes("reservation", memory.reservation.map(|own| own.value))?,
        kernel: bytes("kernel", memory.kernel.map(|own| own.value))?,
        kernel_tcp: bytes("kernel_tcp", memory.kernel_tcp.map(|own| own.value))?,
        swappiness: memory.swappiness.map(|own| own.value),
        disable_oom_killer: memory.disable_oom_killer.map(|own| own.value),
        use_hierarchy: memory.use_hierarchy.map(|own| own.value),
        ..Memory::default()
    })
}
