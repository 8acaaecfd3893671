//! `linux`: namespaces, devices and the kernel's security settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Device, Profile, Resources};

/// Linux-specific configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Linux {
    /// User ids of a new user namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uid_mappings: Vec<IdMapping>,
    /// Group ids of a new user namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gid_mappings: Vec<IdMapping>,
    /// Kernel parameters, by dotted name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// Resource limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Cgroup: a path, or `slice:prefix:name` for the systemd driver.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cgroups_path: String,
    /// Namespaces to create or join; the container shares those not listed with the runtime.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Namespace>,
    /// Device nodes created beyond the default ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// Network devices moved into the container, by their name on the node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub net_devices: BTreeMap<String, NetDevice>,
    /// System call filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<Profile>,
    /// Propagation of the root mount.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rootfs_propagation: String,
    /// Paths hidden from the container.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub masked_paths: Vec<String>,
    /// Paths made read-only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readonly_paths: Vec<String>,
    /// SELinux label of the mounts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount_label: String,
    /// Cache and memory bandwidth allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intel_rdt: Option<IntelRdt>,
    /// NUMA memory policy of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_policy: Option<MemoryPolicy>,
    /// Execution domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<Personality>,
    /// Clock offsets of a new time namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub time_offsets: BTreeMap<String, TimeOffset>,
}

/// A range of IDs in a container and on the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMapping {
    /// First ID in the container.
    #[serde(rename = "containerID")]
    pub container_id: u32,
    /// First ID on the host.
    #[serde(rename = "hostID")]
    pub host_id: u32,
    /// Number of IDs.
    pub size: u32,
}

/// A namespace to create, or to join if a path is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// The kind of the namespace.
    #[serde(rename = "type")]
    pub kind: NamespaceKind,
    /// File of the namespace to join.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
}

/// The kinds of namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamespaceKind {
    /// Process ids.
    Pid,
    /// Network devices, addresses, routes, ports.
    Network,
    /// Mounts.
    Mount,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// Host and domain name.
    Uts,
    /// User and group ids.
    User,
    /// The root of the visible cgroup tree.
    Cgroup,
    /// Boot and monotonic clocks.
    Time,
}

/// Settings of a network device moved into the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetDevice {
    /// Its name in the container; the same as on the node if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// Cache and memory bandwidth allocation (`resctrl`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IntelRdt {
    /// Class of service.
    #[serde(rename = "closID", skip_serializing_if = "String::is_empty")]
    pub clos_id: String,
    /// Lines written to the class's `schemata`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schemata: Vec<String>,
    /// Share of the third level cache.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub l3_cache_schema: String,
    /// Share of the memory bandwidth.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mem_bw_schema: String,
    /// Whether a monitoring group is created.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enable_monitoring: bool,
}

/// NUMA memory policy, see `set_mempolicy(2)`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryPolicy {
    /// The mode, such as `MPOL_BIND`.
    pub mode: String,
    /// Memory nodes, such as `0-1`.
    pub nodes: String,
    /// Flags, such as `MPOL_F_STATIC_NODES`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

/// Execution domain, see `personality(2)`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Personality {
    /// `LINUX` or `LINUX32`.
    pub domain: String,
    /// Flags; none are defined so far.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

/// Offset of a clock in a new time namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeOffset {
    /// Seconds.
    pub secs: i64,
    /// Nanoseconds.
    pub nanosecs: u32,
}
