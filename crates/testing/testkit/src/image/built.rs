//! A built image: all its blobs.

use serde_json::{Value, json};

use super::blob::Blob;

pub(super) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// An image ready to be pushed or archived.
#[derive(Debug, Clone)]
pub struct BuiltImage {
    /// What the image's name resolves to: an index or a manifest.
    pub top: Blob,
    /// The manifests that an index names, the host's own platform last.
    pub manifests: Vec<Blob>,
    /// The config of the host's platform; its digest is the image's id.
    pub config: Blob,
    /// Configs of the other platforms.
    pub other_configs: Vec<Blob>,
    /// The layers as they travel, lowest first.
    pub layers: Vec<Blob>,
    /// The layers as bare archives, lowest first. Those that can be fetched bit by bit are left empty: they may be
    /// large, and [`ChunkedLayer::archive`](crate::image::ChunkedLayer::archive) makes them.
    pub tars: Vec<Vec<u8>>,
    /// What is pushed beside the image, each by its digest: what the image names without being made of it.
    pub beside: Vec<BuiltImage>,
}

impl BuiltImage {
    /// What an OCI manifest of these blobs names. Other fields of the manifest are in `more`.
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

    /// One whose name resolves to `top`.
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

    /// What CRI calls the image's id.
    pub fn id(&self) -> &str {
        &self.config.digest
    }

    /// The digest that the image's name resolves to.
    pub fn digest(&self) -> &str {
        &self.top.digest
    }

    /// Configs and layers: all that is not a manifest.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.layers
            .iter()
            .chain(&self.other_configs)
            .chain([&self.config])
    }
}
