//! Errors of the plugins that run in process.

use std::io;

use super::kind::ErrorKind;

/// A failure of a plugin that runs in process.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// The plugin's configuration is wrong.
    #[error("its configuration is not valid: {0}")]
    Config(String),
    /// The configuration needs a feature that only the plugin's program has.
    #[error("it requires the plugin's executable: {0}")]
    Unsupported(String),
    /// No address is left.
    #[error("no IP addresses available in range set: {0}")]
    Exhausted(String),
    /// An existing object conflicts with the new one.
    #[error("{0}")]
    Conflict(String),
    /// CHECK found that an attachment was changed.
    #[error("{0}")]
    Check(String),
    /// A system call failed.
    #[error("cannot {action}")]
    System {
        /// The attempted action.
        action: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Another program holds the packet filter's lock.
    #[error("the packet filter is locked by another program: {0}")]
    Locked(String),
    /// The packet filter refused the change.
    #[error("cannot change the packet filter: {0}")]
    Filter(String),
}

impl NativeError {
    pub(crate) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::System { action, source }
    }

    /// Returns the kind of the failure.
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
