//! What can go wrong in a plugin done in process.

use std::io;

use super::kind::ErrorKind;

/// A plugin done in process failed.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// The plugin's configuration is wrong.
    #[error("its configuration is not valid: {0}")]
    Config(String),
    /// The configuration asks for what only the plugin's program can do.
    #[error("it requires the plugin's executable: {0}")]
    Unsupported(String),
    /// No address is left.
    #[error("no IP addresses available in range set: {0}")]
    Exhausted(String),
    /// Something is in the way.
    #[error("{0}")]
    Conflict(String),
    /// An attachment is not as it was made.
    #[error("{0}")]
    Check(String),
    /// The system refused.
    #[error("cannot {action}")]
    System {
        /// What was being done.
        action: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Another program holds the packet filter's lock.
    #[error("the packet filter is locked by another program: {0}")]
    Locked(String),
    /// The packet filter refused.
    #[error("cannot change the packet filter: {0}")]
    Filter(String),
}

impl NativeError {
    pub(crate) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::System { action, source }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Config(_) | Self::Unsupported(_) => ErrorKind::Invalid,
            Self::Exhausted(_) => ErrorKind::Exhausted,
            Self::Conflict(_) => ErrorKind::Conflict,
            Self::Locked(_) => ErrorKind::TryAgain,
            Self::Check(_) | Self::System { .. } | Self::Filter(_) => ErrorKind::Internal,
        }
    }
}
