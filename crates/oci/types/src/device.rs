//! Device nodes, and the kinds of devices.

use serde::{Deserialize, Serialize};

/// A device node created in the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Absolute path in the container.
    pub path: String,
    /// The kind of the node.
    #[serde(rename = "type")]
    pub kind: DeviceKind,
    /// Major number.
    #[serde(default)]
    pub major: i64,
    /// Minor number.
    #[serde(default)]
    pub minor: i64,
    /// Permission bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<u32>,
    /// Owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

/// The kinds of device nodes, and of device rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeviceKind {
    /// All kinds, in rules only.
    #[serde(rename = "a")]
    All,
    /// Block device.
    #[serde(rename = "b")]
    Block,
    /// Character device.
    #[serde(rename = "c", alias = "u")]
    Char,
    /// FIFO.
    #[serde(rename = "p")]
    Fifo,
}
