//! `linux.resources`: limits, for every cgroup controller of both versions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::DeviceKind;

/// Resource limits of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// Device access; the last matching rule decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceRule>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// CPU time and placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Number of processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<Pids>,
    /// Block IO.
    #[serde(rename = "blockIO", skip_serializing_if = "Option::is_none")]
    pub block_io: Option<BlockIo>,
    /// Huge pages, per page size.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hugepage_limits: Vec<HugepageLimit>,
    /// Network class and priorities (cgroup v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkClass>,
    /// RDMA, per device.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rdma: BTreeMap<String, Rdma>,
    /// Cgroup v2 files, written unchanged.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unified: BTreeMap<String, String>,
}

/// One rule of the device cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceRule {
    /// Whether access is allowed or denied.
    pub allow: bool,
    /// Kind of device; all if absent.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<DeviceKind>,
    /// Major number; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major: Option<i64>,
    /// Minor number; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<i64>,
    /// Letters of `rwm`: read, write, make the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub access: String,
}

/// Memory limits, in bytes; -1 is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Hard limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Soft limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<i64>,
    /// Memory and swap together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<i64>,
    /// Kernel memory (obsolete).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<i64>,
    /// Kernel TCP buffers (cgroup v1).
    #[serde(rename = "kernelTCP", skip_serializing_if = "Option::is_none")]
    pub kernel_tcp: Option<i64>,
    /// Inclination to swap, 0 to 100 (cgroup v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swappiness: Option<u64>,
    /// Whether processes wait instead of being killed (cgroup v1).
    #[serde(rename = "disableOOMKiller", skip_serializing_if = "Option::is_none")]
    pub disable_oom_killer: Option<bool>,
    /// Whether child cgroups are charged here too (cgroup v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_hierarchy: Option<bool>,
    /// Whether an update below the current usage is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_before_update: Option<bool>,
}

/// CPU limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cpu {
    /// Relative weight, 2 to 262144.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<u64>,
    /// Microseconds of CPU time in each period; -1 is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<i64>,
    /// Microseconds of unused quota that may be saved up over periods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Length of a period in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<u64>,
    /// Microseconds of real-time scheduling in each period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime_runtime: Option<i64>,
    /// Length of a period of real-time scheduling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime_period: Option<u64>,
    /// CPUs, such as `0-3,7`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cpus: String,
    /// Memory nodes, such as `0-1`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mems: String,
    /// 1 if the group runs only when nothing else does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<i64>,
}

/// Number of processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pids {
    /// The limit; -1 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
}

/// Block IO limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockIo {
    /// Relative weight, 10 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// Weight against the cgroup's children (cgroup v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf_weight: Option<u16>,
    /// Weights per device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weight_device: Vec<BlockWeight>,
    /// Bytes read per second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub throttle_read_bps_device: Vec<Throttle>,
    /// Bytes written per second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub throttle_write_bps_device: Vec<Throttle>,
    /// Reads per second.
    #[serde(
        rename = "throttleReadIOPSDevice",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub throttle_read_iops_device: Vec<Throttle>,
    /// Writes per second.
    #[serde(
        rename = "throttleWriteIOPSDevice",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub throttle_write_iops_device: Vec<Throttle>,
}

/// Weight of one block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockWeight {
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
    /// Relative weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// Weight against the cgroup's children (cgroup v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf_weight: Option<u16>,
}

/// Rate of one block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Throttle {
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
    /// Bytes or operations per second.
    pub rate: u64,
}

/// Huge pages of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HugepageLimit {
    /// The size, such as `2MB` or `1GB`.
    pub page_size: String,
    /// Limit in bytes.
    pub limit: u64,
}

/// Network class and priorities (cgroup v1).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkClass {
    /// Class of sent packets.
    #[serde(rename = "classID", skip_serializing_if = "Option::is_none")]
    pub class_id: Option<u32>,
    /// Priorities per interface.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<InterfacePriority>,
}

/// Priority of the traffic over one interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfacePriority {
    /// Name of the interface.
    pub name: String,
    /// The priority.
    pub priority: u32,
}

/// Limits of one RDMA device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rdma {
    /// Limit of handles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hca_handles: Option<u32>,
    /// Limit of objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hca_objects: Option<u32>,
}
