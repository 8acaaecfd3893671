//! An image in the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::patterns::matches_pattern;
use crate::store::{ImageRecord, State};
use crate::{Digest, ImageConfig};

/// An image in the store. A snapshot: later pulls and removals do not change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Digest of the configuration, or of the manifest for an artifact.
    pub id: Digest,
    /// Digest of the manifest of the last pull.
    pub manifest: Digest,
    /// Full names with tags, e.g. `docker.io/library/busybox:latest`.
    pub repo_tags: Vec<String>,
    /// Full names with digests of the manifest or index, e.g.
    /// `docker.io/library/busybox@sha256:…`.
    pub repo_digests: Vec<String>,
    /// Bytes of the unpacked files.
    pub size: u64,
    /// The image's configuration.
    pub config: Arc<ImageConfig>,
    /// Whether the kubelet must not garbage collect it.
    pub pinned: bool,
    /// Time of the first pull, in seconds since the epoch.
    pub pulled: u64,
    /// Runtime handlers whose guests pull its layers themselves; contains the empty name if its layers are stored
    /// here.
    pub handlers: BTreeSet<String>,
    /// Whether only clients with a key may use it.
    pub is_encrypted: bool,
    /// Keys of the layers, base first.
    pub(crate) layers: Vec<Digest>,
}

impl Image {
    pub(crate) fn new(
        record: &ImageRecord,
        state: &State,
        config: Arc<ImageConfig>,
        pinned: &[String],
    ) -> Self {
        let names = || record.tags.iter().chain(&record.digests);
        Self {
            id: record.id,
            manifest: record.manifest,
            repo_tags: record.tags.iter().cloned().collect(),
            repo_digests: record.digests.iter().cloned().collect(),
            size: record
                .layers
                .iter()
                .filter_map(|key| state.layers.get(key))
                .map(|layer| layer.bytes)
                .sum(),
            config,
            pinned: names().any(|name| pinned.iter().any(|pattern| matches_pattern(pattern, name))),
            pulled: record.created,
            handlers: record.handlers.clone(),
            is_encrypted: record.is_encrypted,
            layers: record.layers.clone(),
        }
    }

    /// Returns the numeric user of the image.
    pub fn uid(&self) -> Option<i64> {
        self.config.uid()
    }

    /// Returns the named user of the image; empty if there is none or it is a number.
    pub fn username(&self) -> &str {
        self.config.username()
    }
}
