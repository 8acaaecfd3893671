//! A pod as its source defines it, with the objects that its manifest refers to.

mod class;
mod objects;

use std::sync::Arc;

use orlop_kubelet_rules::pod::Pod;
use serde::Deserialize as _;
use serde_json::Value;

pub use objects::{InputError, Objects, RuntimeClass, Secret};

/// What a source wants to run: one pod and what its manifest refers to.
#[derive(Debug, Clone)]
pub struct PodInput {
    /// The kind of source, as `kubernetes.io/config.source` has it: `file`, `http`, `api`.
    pub source: String,
    /// The manifest as JSON, in full, with `metadata.uid` filled in.
    pub manifest: Arc<Value>,
    /// The part of it that decides what the node does.
    pub pod: Arc<Pod>,
    /// The objects that the source gave beside it.
    pub objects: Arc<Objects>,
}

impl PodInput {
    /// Reads a manifest. Its `metadata.uid` and `metadata.name` must be there: whoever loads a
    /// manifest knows what makes a pod of this source the same pod as before.
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

    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.pod.metadata.namespace, self.pod.metadata.name)
    }
}
