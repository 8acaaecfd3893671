//! Errors when the packet filter is changed.

use std::path::PathBuf;

use crate::error::NativeError;

/// The packet filter could not be changed.
#[derive(Debug)]
pub(crate) enum FilterError {
    /// A chain that was to be new is there.
    Exists,
    /// Another program holds the lock.
    Locked(String),
    /// The kernel knows no such table or expression.
    Unsupported(String),
    /// A program could not be started for want of something.
    Unstarted {
        program: PathBuf,
        source: std::io::Error,
    },
    /// Anything else.
    Failed(String),
}

impl From<FilterError> for NativeError {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::Exists => Self::Filter("a chain of this name exists already".to_owned()),
            FilterError::Locked(message) => Self::Locked(message),
            FilterError::Unstarted { program, source } => Self::System {
                action: format!("start {}", program.display()),
                source,
            },
            FilterError::Unsupported(message) | FilterError::Failed(message) => {
                Self::Filter(message)
            }
        }
    }
}
