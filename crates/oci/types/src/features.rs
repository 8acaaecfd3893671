//! The document an OCI runtime prints for its `features` command.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The annotation by which runc tells its version (`features.md` of runc).
const RUNC_VERSION: &str = "org.opencontainers.runc.version";

/// The annotation by which orlop-run tells its version.
const OWN_VERSION: &str = "org.orlop.run.version";
/// That its `create` takes mounts (`--given-mounts`).
const OWN_MOUNTS: &str = "org.orlop.run.mounts";

/// What a runtime can do. An absent answer means unknown, not no.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Features {
    /// Oldest version of the specification it takes.
    pub oci_version_min: String,
    /// Newest version of the specification it takes.
    pub oci_version_max: String,
    /// Hooks it runs.
    pub hooks: Vec<String>,
    /// Mount options it knows.
    pub mount_options: Vec<String>,
    /// What is particular to Linux.
    pub linux: Option<LinuxFeatures>,
    /// Facts about the build.
    pub annotations: BTreeMap<String, String>,
    /// Annotations of a container which change the runtime's behaviour.
    pub potentially_unsafe_config_annotations: Vec<String>,
}

impl Features {
    /// Whether read-only can be made to hold for everything mounted below a mount.
    pub fn recursive_read_only(&self) -> bool {
        self.mount_options.iter().any(|option| option == "rro")
    }

    /// Whether it is runc itself, of a version that says so.
    pub fn is_runc(&self) -> bool {
        self.annotations.contains_key(RUNC_VERSION)
    }

    /// Whether its containers wait for their start where runc's do: a directory by the container's name,
    /// and in it a fifo.
    pub fn keeps_state_as_runc(&self) -> bool {
        self.is_runc() || self.annotations.contains_key(OWN_VERSION)
    }

    /// Whether it has processes of one thread move themselves into their cgroups, which needs no wait for
    /// all processors.
    pub fn moves_at_once(&self) -> bool {
        self.annotations.contains_key(OWN_VERSION)
    }

    /// Whether it takes a cgroup that is there and empty for its own, and gives its cpuset what it needs.
    pub fn fills_cgroups(&self) -> bool {
        self.annotations.contains_key(OWN_VERSION)
    }

    /// Whether it goes on in a protected copy of itself unless it is executed as one.
    pub fn protects_itself(&self) -> bool {
        self.annotations.contains_key(OWN_VERSION)
    }

    /// Whether it puts mounts that it is given in their places itself.
    pub fn attaches_mounts(&self) -> bool {
        self.annotations.contains_key(OWN_MOUNTS)
    }

    /// Whether it makes user namespaces, with id-mapped mounts for volumes.
    pub fn user_namespaces(&self) -> bool {
        let Some(linux) = &self.linux else {
            return false;
        };
        let namespaces = linux.namespaces.iter().any(|namespace| namespace == "user");
        namespaces && self.idmapped_mounts()
    }

    /// Whether the ids of a mount can be mapped.
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
    /// Namespaces it makes.
    pub namespaces: Vec<String>,
    /// Capabilities it knows.
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

/// Cgroup versions and managers a runtime knows.
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

/// System call filters a runtime can load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SeccompFeatures {
    /// Whether it can load any.
    pub enabled: Option<bool>,
    /// Actions it knows.
    pub actions: Vec<String>,
    /// Comparisons it knows.
    pub operators: Vec<String>,
    /// Architectures it knows.
    pub archs: Vec<String>,
    /// Flags it has heard of.
    pub known_flags: Vec<String>,
    /// Flags which work here.
    pub supported_flags: Vec<String>,
}

/// Whether one thing is built in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Availability {
    /// The answer.
    pub enabled: Option<bool>,
}

/// Cache and memory bandwidth allocation a runtime can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntelRdtFeatures {
    /// Whether it is built in.
    pub enabled: Option<bool>,
    /// Whether whole schemata can be given.
    pub schemata: Option<bool>,
    /// Whether monitoring groups can be made.
    pub monitoring: Option<bool>,
}

/// Extensions of mounts a runtime knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountExtensions {
    /// Mapping the ids of a mount.
    pub idmap: IdmapFeature,
}

/// Whether ids of mounts can be mapped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdmapFeature {
    /// The answer.
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
