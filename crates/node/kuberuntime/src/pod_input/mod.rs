//! A pod as its source defines it, with the objects that its manifest refers to.

mod class;
mod objects;

use std::sync::Arc;

use orlop_kubelet_rules::pod::Pod;
use serde::Deserialize as _;
use serde_json::Value;

pub use objects::{InputError, Objects, RuntimeClass, Secret};

/// A pod that a source wants to run, with the objects that its manifest refers to.
#[derive(Debug, Clone)]
pub struct PodInput {
    /// The kind of source, as in `kubernetes.io/config.source`: `file`, `http`, `api`.
    pub source: String,
    /// The complete manifest as JSON, with `metadata.uid`.
    pub manifest: Arc<Value>,
    /// The parsed part of the manifest that the node uses.
    pub pod: Arc<Pod>,
    /// The objects that the source provided with the pod.
    pub objects: Arc<Objects>,
}

impl PodInput {
    /// Parses a manifest. `metadata.uid` and `metadata.name` are required: the caller that loads
    /// the manifest assigns the uid, so that the same pod always gets the same one.
    pub fn new(source: &str, manifest: Value, objects: Arc<Objects>) -> Result<Self, InputError> {
        let pod = Pod::deserialize(&manifest).map_err(|source| InputError::NotA {
            kind: "Pod",
            source,
        })?;
        for (field, value) in [
            ("metadata.name", &pod.metadata.name),
            ("metadata.uid", &pod.metadata.uid),
        ] {
            if value.is_empty() || value.contains('/') || value == "." || value == ".." {
                return Err(InputError::Identity { field });
            }
        }
        Ok(Self {
            source: source.to_owned(),
            manifest: Arc::new(manifest),
            pod: Arc::new(pod),
            objects,
        })
    }

    /// The pod's uid.
    pub fn uid(&self) -> &str {
        &self.pod.metadata.uid
    }

    /// The pod's `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.pod.metadata.namespace, self.pod.metadata.name)
    }
}
