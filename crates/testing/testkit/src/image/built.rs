//! A built image with all its blobs.

use serde_json::{Value, json};

use super::blob::Blob;

pub(super) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// An image ready to be pushed or archived.
#[derive(Debug, Clone)]
pub struct BuiltImage {
    /// Index or manifest that the image's name resolves to.
    pub top: Blob,
    /// Manifests of the index; the host's platform is last.
    pub manifests: Vec<Blob>,
    /// Config of the host's platform; its digest is the image ID.
    pub config: Blob,
    /// Configs of other platforms.
    pub other_configs: Vec<Blob>,
    /// Compressed layers, lowest first.
    pub layers: Vec<Blob>,
    /// Layers as plain archives, lowest first. Those for lazy pulling are empty, as they may be large;
    /// [`ChunkedLayer::archive`](crate::image::ChunkedLayer::archive) creates them.
    pub tars: Vec<Vec<u8>>,
    /// Artifacts to push together with the image, by digest.
    pub beside: Vec<BuiltImage>,
}

impl BuiltImage {
    /// Creates an OCI manifest of these blobs, with further fields in `more`.
    pub fn of_blobs(config: Blob, layers: Vec<Blob>, more: Value) -> Self {
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": config.descriptor(),
            "layers": layers.iter().map(Blob::descriptor).collect::<Vec<_>>(),
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            manifest[name] = value.clone();
        }
        let top = Blob::json(OCI_MANIFEST, &manifest);
        Self::beneath(top, config, layers)
    }

    /// Creates an image whose name resolves to `top`.
    pub fn beneath(top: Blob, config: Blob, layers: Vec<Blob>) -> Self {
        Self {
            top,
            manifests: Vec::new(),
            config,
            other_configs: Vec::new(),
            layers,
            tars: Vec::new(),
            beside: Vec::new(),
        }
    }

    /// Returns the image ID in the CRI.
    pub fn id(&self) -> &str {
        &self.config.digest
    }

    /// Returns the digest that the image's name resolves to.
    pub fn digest(&self) -> &str {
        &self.top.digest
    }

    /// Returns configs and layers: all blobs that are no manifests.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.layers
            .iter()
            .chain(&self.other_configs)
            .chain([&self.config])
    }
}
