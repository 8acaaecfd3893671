//! Errors of changes to the packet filter.

use std::path::PathBuf;

use crate::error::NativeError;

/// A failed change of the packet filter.
#[derive(Debug)]
pub(crate) enum FilterError {
    /// A chain that should be new already exists.
    Exists,
    /// Another program holds the lock of `iptables`.
    Locked(String),
    /// The kernel does not support the table or expression.
    Unsupported(String),
    /// A program could not start because the system lacks a resource.
    Unstarted {
        program: PathBuf,
        source: std::io::Error,
    },
    /// Any other failure.
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
