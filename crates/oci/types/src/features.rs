//! The document printed by an OCI runtime's `features` command.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The annotation with runc's version (`features.md` of runc).
const RUNC_VERSION: &str = "org.opencontainers.runc.version";

/// The annotation with orlop-run's version.
const OWN_VERSION: &str = "org.orlop.run.version";
/// The annotation for support of `create --given-mounts`.
const OWN_MOUNTS: &str = "org.orlop.run.mounts";

/// The features of a runtime. An absent value means unknown, not unsupported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Features {
    /// Oldest supported version of the specification.
    pub oci_version_min: String,
    /// Newest supported version of the specification.
    pub oci_version_max: String,
    /// Supported hooks.
    pub hooks: Vec<String>,
    /// Supported mount options.
    pub mount_options: Vec<String>,
    /// Linux-specific features.
    pub linux: Option<LinuxFeatures>,
    /// Facts about the build.
    pub annotations: BTreeMap<String, String>,
    /// Annotations of a container which change the runtime's behaviour.
    pub potentially_unsafe_config_annotations: Vec<String>,
}

impl Features {
    /// Returns whether it supports recursive read-only mounts.
    pub fn recursive_read_only(&self) -> bool {
        self.mount_options.iter().any(|option| option == "rro")
    }

    /// Returns whether it is runc itself, in a version that reports this.
    pub fn is_runc(&self) -> bool {
        self.annotations.contains_key(RUNC_VERSION)
    }

    /// Returns whether it keeps a container's start fifo where runc does: in a directory with the container's ID.
    pub fn keeps_state_as_runc(&self) -> bool {
        self.is_runc() || self.annotations.contains_key(OWN_VERSION)
    }

    /// Returns whether single-threaded processes move themselves into their cgroups, which does not wait for all
    /// processors.
    pub fn moves_at_once(&self) -> bool {
        self.annotations.contains_key(OWN_VERSION)
    }

    /// Returns whether it accepts an existing empty cgroup, and initializes its cpuset.
    pub fn fills_cgroups(&self) -> bool {
        self.annotations.contains_key(OWN_VERSION)
    }

    /// Returns whether it re-executes itself from a protected copy, unless it is started as one.
    pub fn protects_itself(&self) -> bool {
        self.annotations.contains_key(OWN_VERSION)
    }

    /// Returns whether it attaches given mounts itself.
    pub fn attaches_mounts(&self) -> bool {
        self.annotations.contains_key(OWN_MOUNTS)
    }

    /// Returns whether it supports user namespaces, with ID-mapped mounts for volumes.
    pub fn user_namespaces(&self) -> bool {
        let Some(linux) = &self.linux else {
            return false;
        };
        let namespaces = linux.namespaces.iter().any(|namespace| namespace == "user");
        namespaces && self.idmapped_mounts()
    }

    /// Returns whether it supports ID-mapped mounts.
    pub fn idmapped_mounts(&self) -> bool {
        self.linux
            .as_ref()
            .and_then(|linux| linux.mount_extensions.as_ref()?.idmap.enabled)
            .unwrap_or(false)
    }
}

/// The Linux part of [`Features`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LinuxFeatures {
    /// Supported namespaces.
    pub namespaces: Vec<String>,
    /// Supported capabilities.
    pub capabilities: Vec<String>,
    /// Cgroup versions and managers.
    pub cgroup: Option<CgroupFeatures>,
    /// System call filters.
    pub seccomp: Option<SeccompFeatures>,
    /// AppArmor.
    pub apparmor: Option<Availability>,
    /// SELinux.
    pub selinux: Option<Availability>,
    /// Cache and memory bandwidth allocation.
    pub intel_rdt: Option<IntelRdtFeatures>,
    /// Extensions of mounts.
    pub mount_extensions: Option<MountExtensions>,
    /// Moving network devices into the container.
    pub net_devices: Option<Availability>,
}

/// Cgroup versions and managers that a runtime supports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CgroupFeatures {
    /// Version 1.
    pub v1: Option<bool>,
    /// Version 2.
    pub v2: Option<bool>,
    /// systemd as the manager.
    pub systemd: Option<bool>,
    /// A user's systemd as the manager.
    pub systemd_user: Option<bool>,
    /// The RDMA controller.
    pub rdma: Option<bool>,
}

/// Seccomp features of a runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SeccompFeatures {
    /// Whether filters are supported.
    pub enabled: Option<bool>,
    /// Supported actions.
    pub actions: Vec<String>,
    /// Supported comparisons.
    pub operators: Vec<String>,
    /// Supported architectures.
    pub archs: Vec<String>,
    /// Known flags.
    pub known_flags: Vec<String>,
    /// Flags that work on this machine.
    pub supported_flags: Vec<String>,
}

/// Whether a feature is built in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Availability {
    /// Whether it is enabled.
    pub enabled: Option<bool>,
}

/// Cache and memory bandwidth features of a runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntelRdtFeatures {
    /// Whether it is built in.
    pub enabled: Option<bool>,
    /// Whether complete schemata can be set.
    pub schemata: Option<bool>,
    /// Whether monitoring groups are supported.
    pub monitoring: Option<bool>,
}

/// Mount extensions that a runtime supports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountExtensions {
    /// ID-mapped mounts.
    pub idmap: IdmapFeature,
}

/// Whether ID-mapped mounts are supported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdmapFeature {
    /// Whether it is enabled.
    pub enabled: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_runtime_claims_nothing_it_does_not_say() {
        let features: Features = serde_json::from_str(
            r#"{"ociVersionMin":"1.0.0","mountOptions":["ro","rro"],
                "linux":{"namespaces":["user"],"capabilities":["CAP_KILL"]}}"#,
        )
        .unwrap();
        assert!(features.recursive_read_only());
        assert!(!features.user_namespaces());
    }

    #[test]
    fn user_namespaces_need_idmapped_mounts() {
        let features: Features = serde_json::from_str(
            r#"{"linux":{"namespaces":["user","pid"],
                "mountExtensions":{"idmap":{"enabled":true}}}}"#,
        )
        .unwrap();
        assert!(features.user_namespaces());
    }
}
