//! The top level of `config.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{IdMapping, Linux, Process};

/// A container's `config.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Version of the specification.
    pub oci_version: String,
    /// The process to run; it may be absent in a spec used only to create namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// The root filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<Root>,
    /// Host name set in the container's UTS namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// NIS domain name set in the container's UTS namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domainname: String,
    /// Mounts, made in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// Programs run at points of the container's lifecycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Hooks>,
    /// Free-form metadata.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Linux-specific configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux: Option<Linux>,
}

impl Spec {
    /// Returns whether the runtime must run code at the container's start or deletion, beyond releasing its process and
    /// removing its state: hooks to run, a resource class to remove.
    pub fn needs_runtime_after_creation(&self) -> bool {
        let late = |hooks: &Hooks| !hooks.poststart.is_empty() || !hooks.poststop.is_empty();
        let class = self.linux.as_ref().is_some_and(|it| it.intel_rdt.is_some());
        class || self.hooks.as_ref().is_some_and(late)
    }

    /// The version written into specs created here. All newer features used are optional, and ignored by runtimes that
    /// do not know them.
    pub const VERSION: &'static str = "1.0.2";
}

/// The container's root filesystem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Root {
    /// Path of the root filesystem, absolute or relative to the bundle.
    pub path: String,
    /// Whether the container sees it read-only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub readonly: bool,
}

/// One mount of the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mount {
    /// Absolute path in the container.
    pub destination: String,
    /// Filesystem type; `bind` for bind mounts.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Device name, or the source path of a bind mount.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Options in the format of `mount(8)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// User ID mapping of this mount.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uid_mappings: Vec<IdMapping>,
    /// Group ID mapping of this mount.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gid_mappings: Vec<IdMapping>,
}

/// Programs run at points of the container's lifecycle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hooks {
    /// After the namespaces are created, before the process starts (older form of `createRuntime`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prestart: Vec<Hook>,
    /// After the namespaces are created, in the runtime's namespaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub create_runtime: Vec<Hook>,
    /// After the namespaces are created, in the container's namespaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub create_container: Vec<Hook>,
    /// Right before the process is executed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub start_container: Vec<Hook>,
    /// After the process has started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub poststart: Vec<Hook>,
    /// After the container is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub poststop: Vec<Hook>,
}

/// One program of [`Hooks`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// Absolute path of the program.
    pub path: String,
    /// Arguments, the program's name first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment, `NAME=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Seconds after which the program is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_spec_says_only_its_version() {
        let spec = Spec {
            oci_version: Spec::VERSION.into(),
            ..Spec::default()
        };
        assert_eq!(
            serde_json::to_string(&spec).unwrap(),
            r#"{"ociVersion":"1.0.2"}"#
        );
    }

    /// The document is a shortened version of the specification's example.
    #[test]
    fn a_full_document_survives_reading_and_writing() {
        let text = r#"{
          "ociVersion": "1.2.0",
          "process": {
            "terminal": true, "consoleSize": {"height": 25, "width": 80},
            "user": {"uid": 1, "gid": 1, "umask": 63, "additionalGids": [5, 6]},
            "args": ["sh"], "env": ["TERM=xterm"], "cwd": "/",
            "capabilities": {"bounding": ["CAP_KILL"], "ambient": ["CAP_KILL"]},
            "rlimits": [{"type": "RLIMIT_CORE", "hard": 1024, "soft": 1024}],
            "noNewPrivileges": true, "apparmorProfile": "acme", "oomScoreAdj": 100,
            "scheduler": {"policy": "SCHED_FIFO", "priority": 3},
            "selinuxLabel": "system_u:system_r:svirt_lxc_net_t:s0:c124,c675",
            "ioPriority": {"class": "IOPRIO_CLASS_IDLE", "priority": 4},
            "execCPUAffinity": {"initial": "7", "final": "0-3,7"}
          },
          "root": {"path": "rootfs", "readonly": true},
          "hostname": "slartibartfast", "domainname": "foobarbaz",
          "mounts": [{"destination": "/data", "type": "bind", "source": "/v", "options": ["rbind"],
            "uidMappings": [{"containerID": 0, "hostID": 1000, "size": 32}],
            "gidMappings": [{"containerID": 0, "hostID": 1000, "size": 32}]}],
          "hooks": {"createRuntime": [{"path": "/bin/x", "args": ["x"], "timeout": 5}]},
          "annotations": {"com.example.key": "v"},
          "linux": {
            "uidMappings": [{"containerID": 0, "hostID": 1000, "size": 32000}],
            "sysctl": {"net.core.somaxconn": "256"},
            "resources": {
              "devices": [{"allow": false, "access": "rwm"},
                {"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rw"}],
              "memory": {"limit": 536870912, "swap": -1, "checkBeforeUpdate": true},
              "cpu": {"shares": 1024, "quota": 1000000, "period": 500000, "cpus": "2-3"},
              "pids": {"limit": 32771},
              "blockIO": {"weight": 10, "weightDevice": [{"major": 8, "minor": 0, "weight": 500}],
                "throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": 600}]},
              "hugepageLimits": [{"pageSize": "2MB", "limit": 9223372036854772000}],
              "network": {"classID": 1048577, "priorities": [{"name": "eth0", "priority": 500}]},
              "rdma": {"mlx5_1": {"hcaHandles": 3}},
              "unified": {"memory.high": "1024"}
            },
            "cgroupsPath": "/myRuntime/myContainer",
            "namespaces": [{"type": "pid"}, {"type": "network", "path": "/run/netns/a"},
              {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "user"},
              {"type": "cgroup"}, {"type": "time"}],
            "devices": [{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229,
              "fileMode": 438, "uid": 0, "gid": 0}],
            "seccomp": {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1,
              "architectures": ["SCMP_ARCH_X86"], "flags": ["SECCOMP_FILTER_FLAG_LOG"],
              "syscalls": [{"names": ["getcwd"], "action": "SCMP_ACT_ALLOW",
                "args": [{"index": 0, "value": 2, "valueTwo": 3, "op": "SCMP_CMP_MASKED_EQ"}]}]},
            "rootfsPropagation": "rslave",
            "maskedPaths": ["/proc/kcore"], "readonlyPaths": ["/proc/sys"],
            "mountLabel": "system_u:object_r:svirt_sandbox_file_t:s0:c715,c811",
            "intelRdt": {"closID": "g", "schemata": ["L3:0=7f0"]},
            "personality": {"domain": "LINUX32"},
            "timeOffsets": {"monotonic": {"secs": 172800, "nanosecs": 1}}
          }
        }"#;
        let spec: Spec = serde_json::from_str(text).unwrap();
        let written = serde_json::to_value(&spec).unwrap();
        let original: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(written, original);
    }
}
