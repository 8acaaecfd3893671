//! The metadata of a pod.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::nullable::nullable;

/// The identity of a pod, its labels, and its deletion.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// The pod's name.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// The pod's namespace; `default` if the manifest has none.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The id that distinguishes this pod from others of the same name.
    #[serde(default, deserialize_with = "nullable")]
    pub uid: String,
    /// Labels, passed on to the sandbox.
    #[serde(default, deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
    /// Annotations, passed on to the sandbox unchanged.
    #[serde(default, deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, String>,
    /// Set when the pod is being deleted; none of its containers start after that.
    #[serde(default)]
    pub deletion_timestamp: Option<String>,
    /// The grace period of the deletion in seconds.
    #[serde(default)]
    pub deletion_grace_period_seconds: Option<i64>,
}

impl Default for ObjectMeta {
    fn default() -> Self {
        Self {
            name: String::new(),
            namespace: default_namespace(),
            uid: String::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            deletion_timestamp: None,
            deletion_grace_period_seconds: None,
        }
    }
}

fn default_namespace() -> String {
    "default".to_owned()
}
