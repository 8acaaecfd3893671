//! Errors of reading another runtime's files.

use std::io;
use std::path::Path;

/// Result of a reader.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of reading another runtime's files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation and its object.
        what: String,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The data is invalid.
    #[error("{what}: {why}")]
    Invalid {
        /// The data that was read.
        what: String,
        /// The problem.
        why: String,
    },
}

impl Error {
    /// Creates an error of an operation on a path.
    pub(crate) fn at(doing: &str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            what: format!("{doing} {}", path.display()),
            source,
        }
    }

    /// Creates an error of invalid data.
    pub(crate) fn invalid(what: impl Into<String>, why: impl ToString) -> Self {
        Self::Invalid {
            what: what.into(),
            why: why.to_string(),
        }
    }

    /// Returns whether the file does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
