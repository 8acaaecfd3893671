//! Volumes in the pod specification.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::nullable::nullable;
use super::{PullPolicy, Quantity};

/// A volume, which containers of a pod can share.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Its name, unique in the pod.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// A directory that exists as long as the pod.
    #[serde(default)]
    pub empty_dir: Option<EmptyDir>,
    /// A path on the host.
    #[serde(default)]
    pub host_path: Option<HostPath>,
    /// The values of a ConfigMap.
    #[serde(default)]
    pub config_map: Option<ConfigMapVolume>,
    /// The values of a Secret.
    #[serde(default)]
    pub secret: Option<SecretVolume>,
    /// Fields of the pod itself.
    #[serde(default, rename = "downwardAPI")]
    pub downward_api: Option<DownwardVolume>,
    /// Several sources in one directory.
    #[serde(default)]
    pub projected: Option<ProjectedVolume>,
    /// The files of an image.
    #[serde(default)]
    pub image: Option<ImageVolume>,
    /// Kinds of volumes that a standalone node does not support.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A directory that exists as long as the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDir {
    /// Empty, `Memory`, or `HugePages[-SIZE]`.
    #[serde(default, deserialize_with = "nullable")]
    pub medium: String,
    /// The size limit.
    #[serde(default)]
    pub size_limit: Option<Quantity>,
}

/// A path on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct HostPath {
    /// The path.
    #[serde(default, deserialize_with = "nullable")]
    pub path: String,
    /// The required type: `Directory`, `FileOrCreate` …; not checked if empty.
    #[serde(default, rename = "type", deserialize_with = "nullable")]
    pub kind: String,
}

/// A value and the file for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct KeyToPath {
    /// The value's key.
    pub key: String,
    /// The file's path in the volume.
    pub path: String,
    /// The file's mode; overrides the volume's.
    #[serde(default)]
    pub mode: Option<u32>,
}

/// The values of a ConfigMap as files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapVolume {
    /// The ConfigMap.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// Only these values; all if empty.
    #[serde(default, deserialize_with = "nullable")]
    pub items: Vec<KeyToPath>,
    /// The files' mode.
    #[serde(default)]
    pub default_mode: Option<u32>,
    /// Whether the ConfigMap and its keys may be missing.
    #[serde(default, deserialize_with = "nullable")]
    pub optional: bool,
}

/// The values of a Secret as files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretVolume {
    /// The Secret.
    #[serde(default, alias = "name", deserialize_with = "nullable")]
    pub secret_name: String,
    /// Only these values; all if empty.
    #[serde(default, deserialize_with = "nullable")]
    pub items: Vec<KeyToPath>,
    /// The files' mode.
    #[serde(default)]
    pub default_mode: Option<u32>,
    /// Whether the Secret and its keys may be missing.
    #[serde(default, deserialize_with = "nullable")]
    pub optional: bool,
}

/// Fields of the pod itself, as files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DownwardVolume {
    /// The files.
    #[serde(default, deserialize_with = "nullable")]
    pub items: Vec<DownwardFile>,
    /// Their mode.
    #[serde(default)]
    pub default_mode: Option<u32>,
}

/// A file of a downward API volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DownwardFile {
    /// Its path in the volume.
    pub path: String,
    /// A field of the pod.
    #[serde(default)]
    pub field_ref: Option<FieldRef>,
    /// A resource of a container.
    #[serde(default)]
    pub resource_field_ref: Option<ResourceFieldRef>,
    /// Its mode; overrides the volume's.
    #[serde(default)]
    pub mode: Option<u32>,
}

/// Several sources in one directory.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectedVolume {
    /// The sources.
    #[serde(default, deserialize_with = "nullable")]
    pub sources: Vec<Projection>,
    /// The files' mode.
    #[serde(default)]
    pub default_mode: Option<u32>,
}

/// A source of a projected volume.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Projection {
    /// The values of a ConfigMap.
    #[serde(default)]
    pub config_map: Option<ConfigMapVolume>,
    /// The values of a Secret.
    #[serde(default)]
    pub secret: Option<SecretVolume>,
    /// Fields of the pod itself.
    #[serde(default, rename = "downwardAPI")]
    pub downward_api: Option<DownwardVolume>,
    /// Sources that need a cluster.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The files of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageVolume {
    /// The image.
    #[serde(default, deserialize_with = "nullable")]
    pub reference: String,
    /// When it is pulled.
    #[serde(default)]
    pub pull_policy: Option<PullPolicy>,
}

/// A field of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldRef {
    /// Its path, such as `metadata.labels['app']`.
    #[serde(default, deserialize_with = "nullable")]
    pub field_path: String,
}

/// A resource of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFieldRef {
    /// The container; the referring one if empty.
    #[serde(default, deserialize_with = "nullable")]
    pub container_name: String,
    /// The resource, such as `limits.cpu`.
    #[serde(default, deserialize_with = "nullable")]
    pub resource: String,
    /// The unit of the result.
    #[serde(default)]
    pub divisor: Option<Quantity>,
}

/// The source of a variable's value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvSource {
    /// A field of the pod.
    #[serde(default)]
    pub field_ref: Option<FieldRef>,
    /// A resource of a container.
    #[serde(default)]
    pub resource_field_ref: Option<ResourceFieldRef>,
    /// A value of a ConfigMap.
    #[serde(default)]
    pub config_map_key_ref: Option<KeyRef>,
    /// A value of a Secret.
    #[serde(default)]
    pub secret_key_ref: Option<KeyRef>,
    /// A variable from a file that another container of the pod has written.
    #[serde(default)]
    pub file_key_ref: Option<FileKeyRef>,
}

/// A variable from a file in a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileKeyRef {
    /// The volume, an `emptyDir`.
    #[serde(default, deserialize_with = "nullable")]
    pub volume_name: String,
    /// The file's path in the volume.
    #[serde(default, deserialize_with = "nullable")]
    pub path: String,
    /// The variable in the file.
    #[serde(default, deserialize_with = "nullable")]
    pub key: String,
    /// Whether the file and the key may be missing.
    #[serde(default, deserialize_with = "nullable")]
    pub optional: bool,
}

/// A value of a ConfigMap or Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct KeyRef {
    /// The object.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// The value's key.
    #[serde(default, deserialize_with = "nullable")]
    pub key: String,
    /// Whether the object and the key may be missing.
    #[serde(default, deserialize_with = "nullable")]
    pub optional: bool,
}

/// All values of a ConfigMap or Secret as variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvFrom {
    /// A prefix for each name.
    #[serde(default, deserialize_with = "nullable")]
    pub prefix: String,
    /// A ConfigMap.
    #[serde(default)]
    pub config_map_ref: Option<ObjectRef>,
    /// A Secret.
    #[serde(default)]
    pub secret_ref: Option<ObjectRef>,
}

/// A reference to a ConfigMap or Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ObjectRef {
    /// Its name.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// Whether the object may be missing.
    #[serde(default, deserialize_with = "nullable")]
    pub optional: bool,
}
