//! Reasons to refuse a layer.

/// The reason to refuse a layer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The named object is malformed.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    /// The named feature is not supported.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// The key fits, but the remaining data was modified.
    #[error("its wrapped key was modified")]
    Tampered,
    /// Too many recipients, or attempts with keys.
    #[error("it is encrypted for too many keys")]
    TooMany,
    /// The layer has no wrapped key.
    #[error("it has no wrapped key")]
    Nobody,
    /// No private key fits; contains the schemes of the wrapped keys.
    #[error("no key on this node decrypts it; it is encrypted with {0}")]
    NoKey(String),
}
