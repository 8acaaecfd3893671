//! Errors of resctrl configuration.

use std::io;
use std::path::{Path, PathBuf};

/// An error of a configuration file or of the machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A line of the file is invalid.
    #[error("{}:{line}: {why}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The reason.
        why: String,
    },
    /// The file as a whole is invalid.
    #[error("{}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: String,
    },
    /// The machine lacks a feature, or refused an operation.
    #[error("{0}")]
    Machine(String),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns an error for a failed access to a file.
pub(crate) fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let what = format!("{doing} {}", path.display());
    move |error| Error::Machine(format!("{what}: {error}"))
}
