//! Result of a layer's integrity check.

/// Result of a layer's integrity check.
pub(crate) enum Soundness {
    Sound,
    Unchecked,
    Broken(String),
    Unlabelled(String),
}
