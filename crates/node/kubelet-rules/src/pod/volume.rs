//! Volumes as they are wanted.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::nullable::nullable;
use super::{PullPolicy, Quantity};

/// Files that containers of a pod may share.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Its name, unique in the pod.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// A directory that lives as long as the pod.
    #[serde(default)]
    pub empty_dir: Option<EmptyDir>,
    /// A path of the node.
    #[serde(default)]
    pub host_path: Option<HostPath>,
    /// The values of a ConfigMap.
    #[serde(default)]
    pub config_map: Option<ConfigMapVolume>,
    /// The values of a Secret.
    #[serde(default)]
    pub secret: Option<SecretVolume>,
    /// What the pod is told of itself.
    #[serde(default, rename = "downwardAPI")]
    pub downward_api: Option<DownwardVolume>,
    /// Several of those in one directory.
    #[serde(default)]
    pub projected: Option<ProjectedVolume>,
    /// An image's files.
    #[serde(default)]
    pub image: Option<ImageVolume>,
    /// Kinds of volumes that need more than a node.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A directory that lives as long as the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDir {
    /// Empty, `Memory`, or `HugePages[-SIZE]`.
    #[serde(default, deserialize_with = "nullable")]
    pub medium: String,
    /// How much it may hold.
    #[serde(default)]
    pub size_limit: Option<Quantity>,
}

/// A path of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct HostPath {
    /// The path.
    #[serde(default, deserialize_with = "nullable")]
    pub path: String,
    /// What must be there: `Directory`, `FileOrCreate` …; not looked at if empty.
    #[serde(default, rename = "type", deserialize_with = "nullable")]
    pub kind: String,
}

/// One value and the file it becomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct KeyToPath {
    /// The value's key.
    pub key: String,
    /// The file's path in the volume.
    pub path: String,
    /// The file's mode, in place of the volume's.
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
    /// Do without if it is not there.
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
    /// Do without if it is not there.
    #[serde(default, deserialize_with = "nullable")]
    pub optional: bool,
}

/// What the pod is told of itself, as files.
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

/// One such file.
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
    /// Its mode, in place of the volume's.
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

/// One of several sources.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Projection {
    /// The values of a ConfigMap.
    #[serde(default)]
    pub config_map: Option<ConfigMapVolume>,
    /// The values of a Secret.
    #[serde(default)]
    pub secret: Option<SecretVolume>,
    /// What the pod is told of itself.
    #[serde(default, rename = "downwardAPI")]
    pub downward_api: Option<DownwardVolume>,
    /// Sources that need a cluster.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// An image's files.
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
    /// Its path, as `metadata.labels['app']`.
    #[serde(default, deserialize_with = "nullable")]
    pub field_path: String,
}

/// A resource of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFieldRef {
    /// The container; the one at hand if empty.
    #[serde(default, deserialize_with = "nullable")]
    pub container_name: String,
    /// The resource, as `limits.cpu`.
    #[serde(default, deserialize_with = "nullable")]
    pub resource: String,
    /// What it is counted in.
    #[serde(default)]
    pub divisor: Option<Quantity>,
}

/// Where a variable's value comes from.
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
    /// A value of a file that another container of the pod has written.
    #[serde(default)]
    pub file_key_ref: Option<FileKeyRef>,
}

/// One value of a file in a volume.
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
    /// Do without if it is not there.
    #[serde(default, deserialize_with = "nullable")]
    pub optional: bool,
}

/// One value of a ConfigMap or Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct KeyRef {
    /// The object.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// The value's key.
    #[serde(default, deserialize_with = "nullable")]
    pub key: String,
    /// Do without if it is not there.
    #[serde(default, deserialize_with = "nullable")]
    pub optional: bool,
}

/// All values of a ConfigMap or Secret as variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvFrom {
    /// Put before each name.
    #[serde(default, deserialize_with = "nullable")]
    pub prefix: String,
    /// A ConfigMap.
    #[serde(default)]
    pub config_map_ref: Option<ObjectRef>,
    /// A Secret.
    #[serde(default)]
    pub secret_ref: Option<ObjectRef>,
}

/// A ConfigMap or Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ObjectRef {
    /// Its name.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// Do without if it is not there.
    #[serde(default, deserialize_with = "nullable")]
    pub optional: bool,
}
