//! The image's file, written from its beginning to its end in large pieces.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::error::{Error, Result};
use crate::format::BLOCK;

/// How much is gathered before it is written.
const PIECE: usize = 1 << 20;

/// As many zeros are written, which is more than a pack of inodes; more are left out of the file.
const ZEROS: u64 = 128 << 10;

/// What goes behind all that is there. What was passed over can be filled in later.
#[derive(Debug)]
pub(crate) struct Stream {
    file: File,
    /// What is not yet in the file.
    gathered: Vec<u8>,
    /// Where in the file it belongs.
    start: u64,
    /// A write failed, so that what was gathered is lost.
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

    /// Where the next byte goes.
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

    /// Passes over some bytes, which are zeros if nobody fills them in.
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

    /// Goes on at the next block's begin, which it returns.
    pub(crate) fn align(&mut self) -> Result<u64> {
        let position = self.position();
        self.skip(position.next_multiple_of(BLOCK) - position)?;
        Ok(self.position())
    }

    /// Fills in something before the end.
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

    /// Writes what is gathered, and gives the file the length that it has come to.
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
        // In the file, across its end, and in what is gathered.
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
