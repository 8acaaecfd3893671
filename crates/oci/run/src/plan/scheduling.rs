//! CPU and I/O scheduling, memory policy, execution domain.

use orlop_oci_types::{IoPriority, MemoryPolicy, Personality, Scheduler};

use super::affinity::numbers;
use crate::error::{Error, Result};
use crate::sys::SchedAttr;

/// The highest supported memory node.
const MAX_NODES: usize = 1024;

/// Converts `process.scheduler` for `sched_setattr(2)`.
pub(crate) fn scheduler(wanted: &Scheduler) -> Result<SchedAttr> {
    let policy = match wanted.policy.as_str() {
        "SCHED_OTHER" => 0,
        "SCHED_FIFO" => 1,
        "SCHED_RR" => 2,
        "SCHED_BATCH" => 3,
        "SCHED_ISO" => 4,
        "SCHED_IDLE" => 5,
        "SCHED_DEADLINE" => 6,
        other => {
            return Err(Error::new(format!(
                "process.scheduler.policy: invalid scheduler policy: {other:?}"
            )));
        }
    };
    if wanted.nice < -20 || wanted.nice > 19 {
        return Err(Error::new(format!(
            "process.scheduler.nice: invalid scheduler.nice: {}",
            wanted.nice
        )));
    }
    let real_time = matches!(policy, 1 | 2);
    if wanted.priority != 0 && !real_time {
        return Err(Error::new(
            "process.scheduler.priority: scheduler.priority can only be specified for SchedFIFO or SchedRR policy",
        ));
    }
    if policy != 6 && (wanted.runtime, wanted.deadline, wanted.period) != (0, 0, 0) {
        return Err(Error::new(
            "process.scheduler: scheduler runtime/deadline/period can only be specified for SchedDeadline policy",
        ));
    }
    let mut flags = 0;
    for flag in &wanted.flags {
        flags |= match flag.as_str() {
            "SCHED_FLAG_RESET_ON_FORK" => 0x01,
            "SCHED_FLAG_RECLAIM" => 0x02,
            "SCHED_FLAG_DL_OVERRUN" => 0x04,
            "SCHED_FLAG_KEEP_POLICY" => 0x08,
            "SCHED_FLAG_KEEP_PARAMS" => 0x10,
            "SCHED_FLAG_UTIL_CLAMP_MIN" => 0x20,
            "SCHED_FLAG_UTIL_CLAMP_MAX" => 0x40,
            other => {
                return Err(Error::new(format!(
                    "process.scheduler.flags: invalid scheduler flag: {other:?}"
                )));
            }
        };
    }
    Ok(SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy,
        flags,
        nice: wanted.nice,
        priority: wanted.priority as u32,
        runtime: wanted.runtime,
        deadline: wanted.deadline,
        period: wanted.period,
    })
}

/// Converts `process.ioPriority` for `ioprio_set(2)`.
pub(crate) fn io_priority(wanted: &IoPriority) -> Result<i32> {
    const CLASS_SHIFT: i32 = 13;
    let class = match wanted.class.as_str() {
        "IOPRIO_CLASS_RT" => 1,
        "IOPRIO_CLASS_BE" => 2,
        "IOPRIO_CLASS_IDLE" => 3,
        other => {
            return Err(Error::new(format!(
                "process.ioPriority.class: invalid ioPriority.Class: {other:?}"
            )));
        }
    };
    if wanted.priority < 0 || wanted.priority > 7 {
        return Err(Error::new(format!(
            "process.ioPriority.priority: invalid ioPriority.Priority: {}",
            wanted.priority
        )));
    }
    Ok(class << CLASS_SHIFT | wanted.priority)
}

/// Converts `linux.memoryPolicy` for `set_mempolicy(2)`.
pub(crate) fn memory_policy(wanted: &MemoryPolicy) -> Result<(i32, Vec<u64>)> {
    let mut mode = match wanted.mode.as_str() {
        "MPOL_DEFAULT" => 0,
        "MPOL_PREFERRED" => 1,
        "MPOL_BIND" => 2,
        "MPOL_INTERLEAVE" => 3,
        "MPOL_LOCAL" => 4,
        "MPOL_PREFERRED_MANY" => 5,
        "MPOL_WEIGHTED_INTERLEAVE" => 6,
        other => {
            return Err(Error::new(format!(
                "linux.memoryPolicy.mode: invalid memory policy mode: {other:?}"
            )));
        }
    };
    for flag in &wanted.flags {
        mode |= match flag.as_str() {
            "MPOL_F_STATIC_NODES" => 1 << 15,
            "MPOL_F_RELATIVE_NODES" => 1 << 14,
            "MPOL_F_NUMA_BALANCING" => 1 << 13,
            other => {
                return Err(Error::new(format!(
                    "linux.memoryPolicy.flags: invalid memory policy flag: {other:?}"
                )));
            }
        };
    }
    let nodes = numbers(&wanted.nodes, MAX_NODES)
        .map_err(|error| error.within("linux.memoryPolicy.nodes: invalid memory policy nodes"))?;
    if matches!(wanted.mode.as_str(), "MPOL_DEFAULT" | "MPOL_LOCAL") && !nodes.is_empty() {
        return Err(Error::new(format!(
            "linux.memoryPolicy.nodes: {} mode requires 0 nodes but got {}",
            wanted.mode,
            nodes.len()
        )));
    }
    let mut bits = vec![0u64; nodes.iter().max().map_or(0, |highest| highest / 64 + 1)];
    for node in nodes {
        bits[node / 64] |= 1 << (node % 64);
    }
    Ok((mode, bits))
}

/// Converts `linux.personality` for `personality(2)`.
pub(crate) fn personality(wanted: &Personality) -> Result<u32> {
    if let Some(flag) = wanted.flags.first() {
        return Err(Error::new(format!(
            "linux.personality.flags: unsupported flag {flag:?}: no flags are defined"
        )));
    }
    match wanted.domain.as_str() {
        "LINUX" => Ok(0),
        "LINUX32" => Ok(8),
        other => Err(Error::new(format!(
            "linux.personality.domain: invalid execution domain {other:?}"
        ))),
    }
}
