//! SOCI: an index beside an image, which says how its plain gzip layers can be entered.
//!
//! A manifest of its own names a ztoc for each layer that has one. A ztoc says of the layer's archive which files are
//! in it and where, and has checkpoints: places where the gzip stream can be entered, with the content before them.
//! From one checkpoint to the next is a span, and a span is what is fetched and verified: its digest is of the
//! compressed bytes. Nothing verifies that a ztoc says the truth about its layer: it is to be trusted as much as the
//! way by which the image names it.

mod manifest;

pub use manifest::{INDEX_DIGEST, Manifest, Version};
