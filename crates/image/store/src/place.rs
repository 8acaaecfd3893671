//! Positions in configuration files.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<Path>,
    /// The line number, starting at 1.
    pub line: usize,
}

/// The lines of a file's text.
pub(crate) struct Lines {
    file: Arc<Path>,
    /// The offset of each line except the first.
    starts: Vec<usize>,
}

impl Lines {
    pub(crate) fn of(file: &Path, text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self {
            file: file.into(),
            starts: ends.map(|(end, _)| end + 1).collect(),
        }
    }

    /// Returns the line that contains a byte.
    pub(crate) fn place(&self, byte: usize) -> Place {
        Place {
            file: Arc::clone(&self.file),
            line: self.starts.partition_point(|start| *start <= byte) + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one() {
        let lines = Lines::of(Path::new("/x"), "a\n\nb");
        let told = [0, 1, 2, 3, 99].map(|byte| lines.place(byte).to_string());
        assert_eq!(told, ["/x:1", "/x:1", "/x:2", "/x:3", "/x:3"]);
    }
}
