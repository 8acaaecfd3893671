//! How a layer passed its integrity check.

/// How a layer passed its check.
pub(crate) enum Soundness {
    Sound,
    Unchecked,
    Broken(String),
    Unlabelled(String),
}
