//! Why a layer is not decrypted.

/// Why a layer is not decrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// With what that is.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    /// With what is not.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// The key fits, and the rest does not.
    #[error("its wrapped key was modified")]
    Tampered,
    /// Recipients, or tries of keys.
    #[error("it is encrypted for too many keys")]
    TooMany,
    /// There is no wrapped key.
    #[error("it has no wrapped key")]
    Nobody,
    /// With the schemes there are.
    #[error("no key on this node decrypts it; it is encrypted with {0}")]
    NoKey(String),
}
