//! Texts in files that somebody else wrote.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// A text of no more than `limit` bytes. What is no regular file is not waited for.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    let bytes = orlop_fs::read_file(path, limit)?;
    String::from_utf8(bytes)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "the file is not valid UTF-8"))
}
