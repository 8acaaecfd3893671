//! Security settings as they are wanted.

use serde::Deserialize;

use super::nullable::nullable;

/// Security settings for all containers of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSecurityContext {
    /// The user id.
    #[serde(default)]
    pub run_as_user: Option<i64>,
    /// The group id.
    #[serde(default)]
    pub run_as_group: Option<i64>,
    /// Refuse to run as root.
    #[serde(default)]
    pub run_as_non_root: Option<bool>,
    /// Further group ids.
    #[serde(default, deserialize_with = "nullable")]
    pub supplemental_groups: Vec<i64>,
    /// Whether the image's groups count as well.
    #[serde(default)]
    pub supplemental_groups_policy: Option<GroupPolicy>,
    /// The group that owns the volumes.
    #[serde(default)]
    pub fs_group: Option<i64>,
    /// `Always`, or `OnRootMismatch` to leave volumes alone whose root is right already.
    #[serde(default)]
    pub fs_group_change_policy: Option<String>,
    /// Kernel settings of the pod's namespaces.
    #[serde(default, deserialize_with = "nullable")]
    pub sysctls: Vec<Sysctl>,
    /// The system call filter.
    #[serde(default)]
    pub seccomp_profile: Option<SeccompProfile>,
    /// The AppArmor profile.
    #[serde(default)]
    pub app_armor_profile: Option<AppArmorProfile>,
    /// The SELinux label.
    #[serde(default)]
    pub se_linux_options: Option<SeLinuxOptions>,
}

/// Security settings of one container; what is set here wins over the pod's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSecurityContext {
    /// Take nothing away from root.
    #[serde(default)]
    pub privileged: Option<bool>,
    /// The user id.
    #[serde(default)]
    pub run_as_user: Option<i64>,
    /// The group id.
    #[serde(default)]
    pub run_as_group: Option<i64>,
    /// Refuse to run as root.
    #[serde(default)]
    pub run_as_non_root: Option<bool>,
    /// Make the image's files unwritable.
    #[serde(default)]
    pub read_only_root_filesystem: Option<bool>,
    /// Whether a process may gain more rights than its parent.
    #[serde(default)]
    pub allow_privilege_escalation: Option<bool>,
    /// `Default` or `Unmasked`: which paths of `/proc` are hidden.
    #[serde(default)]
    pub proc_mount: Option<String>,
    /// Rights added and taken.
    #[serde(default)]
    pub capabilities: Option<Capabilities>,
    /// The system call filter.
    #[serde(default)]
    pub seccomp_profile: Option<SeccompProfile>,
    /// The AppArmor profile.
    #[serde(default)]
    pub app_armor_profile: Option<AppArmorProfile>,
    /// The SELinux label.
    #[serde(default)]
    pub se_linux_options: Option<SeLinuxOptions>,
}

/// Rights added and taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Capabilities {
    /// Added to the default set.
    #[serde(default, deserialize_with = "nullable")]
    pub add: Vec<String>,
    /// Taken from the default set.
    #[serde(default, deserialize_with = "nullable")]
    pub drop: Vec<String>,
}

/// Whether the groups an image's `/etc/group` gives a user count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum GroupPolicy {
    /// They count.
    Merge,
    /// Only the manifest's do.
    Strict,
}

/// One kernel setting.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Sysctl {
    /// Its name, with dots or slashes.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Where a profile comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ProfileKind {
    /// The runtime's own.
    RuntimeDefault,
    /// None.
    Unconfined,
    /// One on the node.
    Localhost,
}

/// A system call filter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompProfile {
    /// Where it comes from.
    #[serde(rename = "type")]
    pub kind: ProfileKind,
    /// For `Localhost`: its path beneath the node's directory of profiles.
    #[serde(default)]
    pub localhost_profile: Option<String>,
}

/// An AppArmor profile.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppArmorProfile {
    /// Where it comes from.
    #[serde(rename = "type")]
    pub kind: ProfileKind,
    /// For `Localhost`: the name of a loaded profile.
    #[serde(default)]
    pub localhost_profile: Option<String>,
}

/// An SELinux label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct SeLinuxOptions {
    /// Its user.
    #[serde(default, deserialize_with = "nullable")]
    pub user: String,
    /// Its role.
    #[serde(default, deserialize_with = "nullable")]
    pub role: String,
    /// Its type.
    #[serde(default, rename = "type", deserialize_with = "nullable")]
    pub kind: String,
    /// Its level.
    #[serde(default, deserialize_with = "nullable")]
    pub level: String,
}
