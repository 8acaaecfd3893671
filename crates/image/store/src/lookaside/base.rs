//! The location of a signature store.

use std::path::PathBuf;

use reqwest::Url;

/// The location of a signature store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Base {
    /// Below a directory of this node.
    Directory(PathBuf),
    /// On a web server.
    Web(Url),
}
