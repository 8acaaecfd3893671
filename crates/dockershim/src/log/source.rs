//! The source of a container log: the container, the log file, and the position to continue from.

use std::path::PathBuf;

/// A container's log.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The container.
    pub(crate) id: String,
    /// The path of its log file.
    pub(crate) path: PathBuf,
    /// Whether the container has a terminal, which changes the log's format.
    pub(crate) terminal: bool,
}

/// The position to start reading a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// After the content of the file.
    File,
    /// At this time, in nanoseconds since the epoch.
    Time(i64),
}
