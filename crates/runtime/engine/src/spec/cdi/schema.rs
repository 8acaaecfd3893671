//! The vendors' files, as defined by version 1.1 of the CDI specification.
//!
//! Unknown fields are an error: a half-configured device is worse than none.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A CDI file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct File {
    pub(super) cdi_version: String,
    /// `vendor/class`.
    pub(super) kind: String,
    #[serde(default, rename = "annotations")]
    _annotations: BTreeMap<String, String>,
    pub(super) devices: Vec<Device>,
    /// Edits for every container that uses any of the devices.
    #[serde(default)]
    pub(super) container_edits: Edits,
}

/// A device of a CDI file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Device {
    pub(super) name: String,
    #[serde(default, rename = "annotations")]
    _annotations: BTreeMap<String, String>,
    pub(super) container_edits: Edits,
}

/// Edits of a container's specification.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Edits {
    pub(super) env: Vec<String>,
    pub(super) device_nodes: Vec<DeviceNode>,
    pub(super) net_devices: Vec<NetDevice>,
    pub(super) hooks: Vec<Hook>,
    pub(super) mounts: Vec<Mount>,
    pub(super) intel_rdt: Option<IntelRdt>,
    pub(super) additional_gids: Vec<u32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct DeviceNode {
    pub(super) path: String,
    pub(super) host_path: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) major: i64,
    pub(super) minor: i64,
    pub(super) file_mode: Option<u32>,
    pub(super) permissions: String,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NetDevice {
    pub(super) host_interface_name: String,
    pub(super) name: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Hook {
    pub(super) hook_name: String,
    pub(super) path: String,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) env: Vec<String>,
    #[serde(default)]
    pub(super) timeout: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Mount {
    pub(super) host_path: String,
    pub(super) container_path: String,
    #[serde(default)]
    pub(super) options: Vec<String>,
    #[serde(default, rename = "type")]
    pub(super) kind: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct IntelRdt {
    #[serde(rename = "closID")]
    pub(super) clos_id: String,
    pub(super) l3_cache_schema: String,
    pub(super) mem_bw_schema: String,
    pub(super) schemata: Vec<String>,
    pub(super) enable_monitoring: bool,
}
