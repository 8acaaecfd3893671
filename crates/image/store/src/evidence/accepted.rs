//! What a policy has accepted of an image's signatures.

use serde::{Deserialize, Serialize};

use crate::Digest;

/// Names that one thing is known by, at most.
pub(crate) const MAX_KEYS: usize = 16;

/// How many things of each kind a policy has accepted: those that come first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) signatures: usize,
    pub(crate) bundles: usize,
    #[serde(default)]
    pub(crate) attestations: usize,
    pub(crate) messages: usize,
    /// Manifests and indexes that the others are of.
    #[serde(default)]
    pub(crate) manifests: usize,
    #[serde(default)]
    pub(crate) known_by: KnownBy,
}

/// What accepted things are known by, each in its place: a digest of who asked for them and of what was verified. Of two
/// with the same, one is enough, whatever else differs. An earlier version has written none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownBy {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) signatures: Vec<Vec<Digest>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) bundles: Vec<Vec<Digest>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attestations: Vec<Vec<Digest>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) messages: Vec<Vec<Digest>>,
}
