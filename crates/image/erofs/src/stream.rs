//! Sequential writer of the image's file, with large writes.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::error::{Error, Result};
use crate::format::BLOCK;

/// Size of a write.
const PIECE: usize = 1 << 20;

/// Maximum number of zeros that are written, more than the size of a pack of inodes; longer ranges become holes.
const ZEROS: u64 = 128 << 10;

/// Appends data to the file. Skipped ranges can be filled later.
#[derive(Debug)]
pub(crate) struct Stream {
    file: File,
    /// Data that is not in the file yet.
    gathered: Vec<u8>,
    /// Its position in the file.
    start: u64,
    /// Whether a write failed, so that buffered data is lost.
    failed: bool,
}

impl Stream {
    pub(crate) fn new(file: File) -> Self {
        Self {
            file,
            gathered: Vec::with_capacity(PIECE),
            start: 0,
            failed: false,
        }
    }

    /// Returns the position of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.start + self.gathered.len() as u64
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.gathered.is_empty() && bytes.len() >= PIECE {
                self.write(bytes, self.start)?;
                self.start += bytes.len() as u64;
                return Ok(());
            }
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.gathered.len()));
            self.gathered.extend_from_slice(now);
            if self.gathered.len() == PIECE {
                self.flush()?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// Skips bytes, which are zeros unless they are filled later.
    pub(crate) fn skip(&mut self, mut count: u64) -> Result<()> {
        if count > ZEROS {
            self.flush()?;
            let end = self.start.checked_add(count).ok_or(Error::ImageSize)?;
            self.start = end;
            return Ok(());
        }
        while count > 0 {
            let room = (PIECE - self.gathered.len()) as u64;
            let now = count.min(room);
            self.gathered.resize(self.gathered.len() + now as usize, 0);
            if now == room {
                self.flush()?;
            }
            count -= now;
        }
        Ok(())
    }

    /// Pads to the next block boundary; returns its position.
    pub(crate) fn align(&mut self) -> Result<u64> {
        let position = self.position();
        self.skip(position.next_multiple_of(BLOCK) - position)?;
        Ok(self.position())
    }

    /// Fills in data before the current end.
    pub(crate) fn fill(&mut self, bytes: &[u8], position: u64) -> Result<()> {
        let before = self.start.saturating_sub(position).min(bytes.len() as u64);
        let (written, gathered) = bytes.split_at(before as usize);
        if !written.is_empty() {
            self.write(written, position)?;
        }
        if !gathered.is_empty() {
            let at = (position + before - self.start) as usize;
            self.gathered[at..at + gathered.len()].copy_from_slice(gathered);
        }
        Ok(())
    }

    /// Writes the buffered data, and sets the final length of the file.
    pub(crate) fn end(mut self) -> Result<()> {
        self.flush()?;
        self.file.set_len(self.start).map_err(Error::Write)
    }

    fn flush(&mut self) -> Result<()> {
        if !self.gathered.is_empty() {
            let gathered = std::mem::take(&mut self.gathered);
            let written = self.write(&gathered, self.start);
            self.start += gathered.len() as u64;
            self.gathered = gathered;
            self.gathered.clear();
            written?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], position: u64) -> Result<()> {
        if self.failed {
            return Err(Error::Broken);
        }
        self.file.write_all_at(bytes, position).map_err(|error| {
            self.failed = true;
            Error::Write(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn what_is_filled_in_is_found_wherever_the_bytes_are() {
        let file = tempfile::tempfile().expect("make a file");
        let mut stream = Stream::new(file.try_clone().expect("clone it"));
        let mut expected = Vec::new();
        for (index, length) in [10, PIECE - 15, 20, 3 * PIECE, 7].into_iter().enumerate() {
            stream.push(&vec![index as u8 + 1; length]).expect("push");
            expected.resize(expected.len() + length, index as u8 + 1);
        }
        for count in [5, ZEROS + 1, ZEROS] {
            stream.skip(count).expect("skip");
            expected.resize(expected.len() + count as usize, 0);
        }
        stream.push(b"more").expect("push");
        expected.extend(b"more");
        // In the file, across its end, and in the buffer.
        let edge = stream.start as usize;
        for at in [3, edge - 4, edge, edge + 9] {
            stream.fill(b"filled", at as u64).expect("fill");
            expected[at..at + 6].copy_from_slice(b"filled");
        }
        assert_eq!(stream.position(), expected.len() as u64);
        stream.end().expect("end");
        let mut written = Vec::new();
        (&file).read_to_end(&mut written).expect("read");
        assert!(written == expected);
    }

    #[test]
    fn after_a_failure_nothing_is_written() {
        let null = File::open("/dev/null").expect("open for reading");
        let mut stream = Stream::new(null);
        stream.push(b"lost").expect("only gathered");
        assert!(matches!(stream.skip(ZEROS + 1), Err(Error::Write(_))));
        stream.push(b"more").expect("only gathered");
        assert!(matches!(stream.end(), Err(Error::Broken)));
    }
}
