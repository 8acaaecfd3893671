//! Security settings in the pod specification.

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
    /// Reject the container if it would run as root.
    #[serde(default)]
    pub run_as_non_root: Option<bool>,
    /// Further group ids.
    #[serde(default, deserialize_with = "nullable")]
    pub supplemental_groups: Vec<i64>,
    /// Whether the image's groups are added.
    #[serde(default)]
    pub supplemental_groups_policy: Option<GroupPolicy>,
    /// The group that owns the volumes.
    #[serde(default)]
    pub fs_group: Option<i64>,
    /// `Always`, or `OnRootMismatch` to skip volumes whose top directory is already correct.
    #[serde(default)]
    pub fs_group_change_policy: Option<String>,
    /// Sysctls of the pod's namespaces.
    #[serde(default, deserialize_with = "nullable")]
    pub sysctls: Vec<Sysctl>,
    /// The seccomp profile.
    #[serde(default)]
    pub seccomp_profile: Option<SeccompProfile>,
    /// The AppArmor profile.
    #[serde(default)]
    pub app_armor_profile: Option<AppArmorProfile>,
    /// The SELinux label.
    #[serde(default)]
    pub se_linux_options: Option<SeLinuxOptions>,
}

/// Security settings of one container; they override the pod's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSecurityContext {
    /// Give the container full privileges on the node.
    #[serde(default)]
    pub privileged: Option<bool>,
    /// The user id.
    #[serde(default)]
    pub run_as_user: Option<i64>,
    /// The group id.
    #[serde(default)]
    pub run_as_group: Option<i64>,
    /// Reject the container if it would run as root.
    #[serde(default)]
    pub run_as_non_root: Option<bool>,
    /// Mount the image's files read-only.
    #[serde(default)]
    pub read_only_root_filesystem: Option<bool>,
    /// Whether a process may gain more privileges than its parent.
    #[serde(default)]
    pub allow_privilege_escalation: Option<bool>,
    /// `Default` or `Unmasked`: which paths of `/proc` are hidden.
    #[serde(default)]
    pub proc_mount: Option<String>,
    /// Capabilities to add and drop.
    #[serde(default)]
    pub capabilities: Option<Capabilities>,
    /// The seccomp profile.
    #[serde(default)]
    pub seccomp_profile: Option<SeccompProfile>,
    /// The AppArmor profile.
    #[serde(default)]
    pub app_armor_profile: Option<AppArmorProfile>,
    /// The SELinux label.
    #[serde(default)]
    pub se_linux_options: Option<SeLinuxOptions>,
}

/// Capabilities to add and drop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Capabilities {
    /// Added to the default set.
    #[serde(default, deserialize_with = "nullable")]
    pub add: Vec<String>,
    /// Dropped from the default set.
    #[serde(default, deserialize_with = "nullable")]
    pub drop: Vec<String>,
}

/// Whether a user's groups from the image's `/etc/group` are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum GroupPolicy {
    /// They are added.
    Merge,
    /// Only the groups in the manifest are used.
    Strict,
}

/// A sysctl.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Sysctl {
    /// Its name, with dots or slashes.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The source of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ProfileKind {
    /// The default profile of the runtime.
    RuntimeDefault,
    /// No profile.
    Unconfined,
    /// A profile on the node.
    Localhost,
}

/// A seccomp profile.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompProfile {
    /// Its source.
    #[serde(rename = "type")]
    pub kind: ProfileKind,
    /// For `Localhost`: the path beneath the node's profile directory.
    #[serde(default)]
    pub localhost_profile: Option<String>,
}

/// An AppArmor profile.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppArmorProfile {
    /// Its source.
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
