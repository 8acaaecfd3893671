//! Why something cannot be.

use std::io;
use std::path::{Path, PathBuf};

/// What cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What the file says in a line.
    #[error("{}:{line}: {why}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        why: String,
    },
    /// The file as a whole.
    #[error("{}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What the machine has not, or does not do.
    #[error("{0}")]
    Machine(String),
}

/// What there is, or why not.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed access to a file of `resctrl` or of ours.
pub(crate) fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let what = format!("{doing} {}", path.display());
    move |error| Error::Machine(format!("{what}: {error}"))
}
