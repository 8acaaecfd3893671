//! Where in a file of settings something stands.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<Path>,
    /// The line, from 1 on.
    pub line: usize,
}

impl Place {
    /// The line of `file` in whose text the byte is.
    pub(crate) fn at(file: &Arc<Path>, text: &str, byte: usize) -> Self {
        let before = text.bytes().take(byte);
        Self {
            file: Arc::clone(file),
            line: before.filter(|byte| *byte == b'\n').count() + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}
