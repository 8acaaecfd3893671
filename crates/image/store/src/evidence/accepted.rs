//! Records which signatures of an image a policy has accepted.

use serde::{Deserialize, Serialize};

use crate::Digest;

/// Maximum number of keys of one signature.
pub(crate) const MAX_KEYS: usize = 16;

/// Number of items of each kind that a policy has accepted. The accepted items come first in their lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) signatures: usize,
    pub(crate) bundles: usize,
    #[serde(default)]
    pub(crate) attestations: usize,
    pub(crate) messages: usize,
    /// Number of manifests and indexes that the accepted items belong to.
    #[serde(default)]
    pub(crate) manifests: usize,
    #[serde(default)]
    pub(crate) known_by: KnownBy,
}

/// Keys of accepted items, in the order of the items. A key is a digest of the requirement and of the verified
/// content. Of two items with the same key, one is enough. An earlier version did not store keys.
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
