//! Converts the output or the files of other programs to text for a reply.

use std::fs;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use crate::read::read_start;

/// How much of a runtime's log and output goes into a failure.
const TAIL: usize = 4096;

/// Appends, keeping the end only.
pub(crate) fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(bytes);
    if tail.len() > TAIL {
        tail.drain(..tail.len() - TAIL);
    }
}

/// Text for a reply.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The end of a file; nothing where it cannot be read.
pub(crate) fn tail_of(path: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL as u64)))?;
        read_start(file, TAIL as u64)
    };
    read().map_or_else(|_| String::new(), |bytes| text(&bytes))
}
