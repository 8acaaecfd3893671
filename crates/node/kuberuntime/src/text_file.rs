//! Text files from untrusted sources.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Reads a text file of at most `limit` bytes. It does not block on a file that is not regular.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    let bytes = orlop_fs::read_file(path, limit)?;
    String::from_utf8(bytes)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "the file is not valid UTF-8"))
}
