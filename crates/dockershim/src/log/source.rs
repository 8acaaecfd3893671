//! Which log is read, where to, and from where on.

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
