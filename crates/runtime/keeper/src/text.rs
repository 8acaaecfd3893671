//! Converts the output or the files of other programs to text for a reply.

use std::fs;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use crate::read::read_start;

/// Maximum number of bytes of a runtime's log and output in a failure.
const TAIL: usize = 4096;

/// Appends bytes and keeps only the end.
pub(crate) fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(bytes);
    if tail.len() > TAIL {
        tail.drain(..tail.len() - TAIL);
    }
}

/// Converts bytes to text for a reply.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the end of a file; empty if it cannot be read.
pub(crate) fn tail_of(path: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL as u64)))?;
        read_start(file, TAIL as u64)
    };
    read().map_or_else(|_| String::new(), |bytes| text(&bytes))
}
