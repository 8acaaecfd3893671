//! The statistics document with runc's field names. Empty or 0 fields are omitted where runc omits them.

use std::collections::BTreeMap;

use serde::Serialize;

/// Resource usage of a container.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Stats {
    pub(super) cpu: Cpu,
    pub(super) cpuset: Cpuset,
    pub(super) memory: Memory,
    pub(super) pids: Pids,
    pub(super) blkio: Blkio,
    pub(super) hugetlb: BTreeMap<String, Hugetlb>,
    /// The statistics of [`rdt`](crate::rdt).
    pub(crate) intel_rdt: serde_json::Map<String, serde_json::Value>,
    /// Always absent: a container's devices are those of its network namespace.
    pub(super) network_interfaces: Option<()>,
}

#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Cpu {
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) usage: CpuUsage,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) throttling: Throttling,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) psi: Option<Pressure>,
}

/// In nanoseconds.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct CpuUsage {
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) total: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) percpu: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) percpu_kernel: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) percpu_user: Vec<u64>,
    pub(super) kernel: u64,
    pub(super) user: u64,
}

#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Throttling {
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) periods: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) throttled_periods: u64,
    /// In nanoseconds.
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) throttled_time: u64,
}

/// Cgroup v1 only.
#[derive(Debug, Default, Serialize)]
pub(super) struct Cpuset {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cpus: Vec<u16>,
    pub(super) cpu_exclusive: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) mems: Vec<u16>,
    pub(super) mem_hardwall: u64,
    pub(super) mem_exclusive: u64,
    pub(super) memory_migrate: u64,
    pub(super) memory_spread_page: u64,
    pub(super) memory_spread_slab: u64,
    pub(super) memory_pressure: u64,
    pub(super) sched_load_balance: u64,
    pub(super) sched_relax_domain_level: i64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Memory {
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) cache: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) usage: MemoryEntry,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) swap: MemoryEntry,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) kernel: MemoryEntry,
    #[serde(rename = "kernelTCP", skip_serializing_if = "is_nothing")]
    pub(super) kernel_tcp: MemoryEntry,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) raw: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) psi: Option<Pressure>,
}

/// In bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct MemoryEntry {
    pub(super) limit: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) usage: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) max: u64,
    pub(super) failcnt: u64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Pids {
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) current: u64,
    /// 0 if there is no limit.
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) limit: u64,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blkio {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) io_service_bytes_recursive: Vec<BlkioEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) io_serviced_recursive: Vec<BlkioEntry>,
    #[serde(rename = "ioQueueRecursive", skip_serializing_if = "Vec::is_empty")]
    pub(super) io_queued_recursive: Vec<BlkioEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) io_service_time_recursive: Vec<BlkioEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) io_wait_time_recursive: Vec<BlkioEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) io_merged_recursive: Vec<BlkioEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) io_time_recursive: Vec<BlkioEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) sectors_recursive: Vec<BlkioEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) psi: Option<Pressure>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct BlkioEntry {
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) major: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) minor: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) op: String,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) value: u64,
}

/// In bytes.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Hugetlb {
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) usage: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) max: u64,
    pub(super) failcnt: u64,
}

/// Pressure stall information.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Pressure {
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) some: Stall,
    #[serde(skip_serializing_if = "is_nothing")]
    pub(super) full: Stall,
}

/// Averages in percent, and the total in microseconds.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Stall {
    pub(super) avg10: f64,
    pub(super) avg60: f64,
    pub(super) avg300: f64,
    pub(super) total: u64,
}

impl From<orlop_cgroup::Pressure> for Pressure {
    fn from(pressure: orlop_cgroup::Pressure) -> Self {
        let [some, full] = [pressure.some, pressure.full].map(|stall| Stall {
            avg10: stall.avg10,
            avg60: stall.avg60,
            avg300: stall.avg300,
            total: stall.total_us,
        });
        Self { some, full }
    }
}

fn is_nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
