//! The source of a container log: the container, the log file, and the position to continue from.

use std::path::PathBuf;

/// A container's log.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The container.
    pub(crate) id: String,
    /// Where its log is to be.
    pub(crate) path: PathBuf,
    /// Whether it has a terminal: such a log looks different.
    pub(crate) terminal: bool,
}

/// From where on a log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// From after what the file has.
    File,
    /// From this time on.
    Time(i64),
}
