//! Conversions of limits to the kernel's values.

use orlop_oci_types::{BlockIo, Cpu, Memory, Resources};

/// Returns whether some limits need a cgroup v2 controller.
pub(crate) fn need_controllers(resources: &Resources) -> bool {
    let pids = resources.pids.as_ref().is_some_and(|it| it.limit.is_some());
    let cpuset = |it: &Cpu| !it.cpus.is_empty() || !it.mems.is_empty();
    pids || need_a_domain(resources) || resources.cpu.as_ref().is_some_and(cpuset)
}

/// Returns whether some limits cannot apply to a threaded cgroup.
pub(crate) fn need_a_domain(resources: &Resources) -> bool {
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

/// Returns a value, unless it is 0, which many callers write for "unset".
pub(crate) fn some<T: Default + PartialEq>(value: Option<T>) -> Option<T> {
    value.filter(|value| *value != T::default())
}

/// Returns the value of `pids.max`. systemd has no limit of 0, which would differ little from 1.
pub(crate) fn pids(limit: i64) -> String {
    match limit {
        ..0 => "max".to_owned(),
        limit => limit.max(1).to_string(),
    }
}
