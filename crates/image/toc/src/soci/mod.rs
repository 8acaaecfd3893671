//! SOCI: a separate index of an image that allows random access to its plain gzip layers.
//!
//! A manifest names a ztoc for each indexed layer. A ztoc lists the files of the layer's archive with their offsets,
//! and has checkpoints: positions where decompression can start, with the content before them. A span reaches from
//! one checkpoint to the next. It is the unit that is fetched and verified, with a digest of the compressed bytes.
//! Nothing verifies that a ztoc matches its layer, so it must be trusted as much as the reference from the image to
//! it.

mod manifest;

pub use manifest::{INDEX_DIGEST, Manifest, Version};
