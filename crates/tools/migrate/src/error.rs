//! Why something of theirs can't be read.

use std::io;
use std::path::Path;

/// The result of a reader.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something of theirs can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, to what.
        what: String,
        /// Why that failed.
        #[source]
        source: io::Error,
    },
    /// It is not what it must be.
    #[error("{what}: {why}")]
    Invalid {
        /// What was read.
        what: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// A failed operation on a path.
    pub(crate) fn at(doing: &str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            what: format!("{doing} {}", path.display()),
            source,
        }
    }

    /// Something that is wrong.
    pub(crate) fn invalid(what: impl Into<String>, why: impl ToString) -> Self {
        Self::Invalid {
            what: what.into(),
            why: why.to_string(),
        }
    }

    /// Whether there is no such file.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
