//! `process`: the program to execute, and its privileges.

use serde::{Deserialize, Serialize};

/// The container's process, or another one executed in the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Process {
    /// Whether a terminal is attached.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// Size of the terminal at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub console_size: Option<ConsoleSize>,
    /// User and groups.
    pub user: User,
    /// Arguments, the program first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment, `NAME=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Working directory, absolute in the container.
    pub cwd: String,
    /// Capability sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Resource limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rlimits: Vec<Rlimit>,
    /// Whether `execve` may never add privileges.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_new_privileges: bool,
    /// AppArmor profile.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub apparmor_profile: String,
    /// Adjustment of the out-of-memory killer's score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_score_adj: Option<i32>,
    /// CPU scheduling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// SELinux label of the process.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub selinux_label: String,
    /// IO scheduling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_priority: Option<IoPriority>,
    /// CPUs a process joining the container runs on.
    #[serde(rename = "execCPUAffinity", skip_serializing_if = "Option::is_none")]
    pub exec_cpu_affinity: Option<CpuAffinity>,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleSize {
    /// Lines.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

/// User and groups of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// File mode creation mask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Supplementary group ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_gids: Vec<u32>,
}

/// Capability sets, as names with `CAP_`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Upper bound of all sets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bounding: Vec<String>,
    /// Currently effective.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effective: Vec<String>,
    /// Kept over `execve` for files with inheritable capabilities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inheritable: Vec<String>,
    /// May become effective.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permitted: Vec<String>,
    /// Kept over `execve` of an unprivileged user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ambient: Vec<String>,
}

/// Every capability of the kernel, by number (`linux/capability.h`).
pub const CAPABILITIES: [&str; 41] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

/// One resource limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// Name, such as `RLIMIT_NOFILE`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Hard limit.
    pub hard: u64,
    /// Soft limit.
    pub soft: u64,
}

/// CPU scheduling of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduler {
    /// Policy, such as `SCHED_OTHER`.
    pub policy: String,
    /// Nice value.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub nice: i32,
    /// Priority of the real-time policies.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub priority: i32,
    /// Flags, such as `SCHED_FLAG_RESET_ON_FORK`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Runtime of the deadline policy, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub runtime: u64,
    /// Deadline of the deadline policy, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub deadline: u64,
    /// Period of the deadline policy, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub period: u64,
}

/// IO scheduling of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoPriority {
    /// Class, such as `IOPRIO_CLASS_BE`.
    pub class: String,
    /// Priority within the class.
    pub priority: i32,
}

/// CPUs a process joining the container runs on, as lists like `0-3,7`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuAffinity {
    /// Before the process enters the container's cgroup.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub initial: String,
    /// After the process entered it.
    #[serde(rename = "final", skip_serializing_if = "String::is_empty")]
    pub last: String,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero_i32(value: &i32) -> bool {
    *value == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero_u64(value: &u64) -> bool {
    *value == 0
}
