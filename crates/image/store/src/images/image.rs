//! An image as this node knows it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::patterns::matches_pattern;
use crate::store::{ImageRecord, State};
use crate::{Digest, ImageConfig};

/// An image as this node knows it. A snapshot: later pulls and removals don't change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The configuration's digest; an artifact's manifest's.
    pub id: Digest,
    /// The digest of the manifest that it was pulled by last.
    pub manifest: Digest,
    /// Full names with tags, e.g. `docker.io/library/busybox:latest`.
    pub repo_tags: Vec<String>,
    /// Full names with digests of the manifest or index, e.g.
    /// `docker.io/library/busybox@sha256:…`.
    pub repo_digests: Vec<String>,
    /// Bytes of the unpacked files.
    pub size: u64,
    /// What to run, and how.
    pub config: Arc<ImageConfig>,
    /// Must not be collected by the kubelet.
    pub pinned: bool,
    /// When it was first pulled, seconds since the epoch.
    pub pulled: u64,
    /// The handlers for whose guests it was pulled; the empty name is there if its layers are.
    pub handlers: BTreeSet<String>,
    /// Whether only who has a key may use it.
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

    /// The numeric user that the image asks for.
    pub fn uid(&self) -> Option<i64> {
        self.config.uid()
    }

    /// The named user that the image asks for; empty if there is none or it is a number.
    pub fn username(&self) -> &str {
        self.config.username()
    }
}
