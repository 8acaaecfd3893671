//! A document of an image: its bytes as received, and their digest.

use std::sync::Arc;

use crate::Digest;

/// A manifest, index or configuration, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) digest: Digest,
    pub(crate) bytes: Arc<[u8]>,
}
