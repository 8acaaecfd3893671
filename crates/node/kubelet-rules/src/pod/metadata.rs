//! Who a pod is.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::nullable::nullable;

/// The identity of a pod, and the wish to see it gone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// The pod's name.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// The pod's namespace; `default` when the manifest has none.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// What tells this pod from another one of the same name, before or after it.
    #[serde(default, deserialize_with = "nullable")]
    pub uid: String,
    /// Labels, passed on to the sandbox.
    #[serde(default, deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
    /// Annotations, passed on to the sandbox as they are.
    #[serde(default, deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, String>,
    /// Set once the pod is to go; nothing of it is started again after that.
    #[serde(default)]
    pub deletion_timestamp: Option<String>,
    /// How long the pod may take to go, in seconds.
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
