//! A log file that grows and is rotated while it is read.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Error, Result, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::LogPlace;

/// Longer lines than any runtime writes are cut into several, lest a log without lines fills
/// the memory.
const LONGEST_LINE: usize = 1 << 20;

/// A log file, read line by line.
#[derive(Debug)]
pub struct FollowedLog {
    path: PathBuf,
    /// Its container.
    id: String,
    reader: BufReader<File>,
    /// A line whose end has not been written yet.
    unfinished: Vec<u8>,
}

impl FollowedLog {
    /// Opens the log of a container.
    pub fn open(path: &Path, id: &str) -> Result<Self> {
        let file = opened(path, id).map_err(|error| {
            let text = format!("cannot open the log {}: {error}", path.display());
            Error::new(error.kind(), text)
        })?;
        Ok(Self {
            path: path.to_owned(),
            id: id.to_owned(),
            reader: BufReader::new(file),
            unfinished: Vec::new(),
        })
    }

    /// The next whole line.
    pub fn line(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(None);
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            self.unfinished.extend_from_slice(&buffer[..taken]);
            self.reader.consume(taken);
            if end.is_some() || self.unfinished.len() > LONGEST_LINE {
                return Ok(Some(std::mem::take(&mut self.unfinished)));
            }
        }
    }

    /// Goes to where the last `lines` lines begin, looked for in at most so many bytes at the end. What ends
    /// without a line end counts as one; what `goes_on` in the next line of the file is a part of that.
    pub fn seek_tail(
        &mut self,
        lines: u64,
        bytes: u64,
        goes_on: impl Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let mut position = self.skip_to_last(bytes)?;
        let mut begins = VecDeque::new();
        let mut begin = position;
        while let Some(line) = self.line()? {
            position += line.len() as u64;
            if goes_on(&line) {
                continue;
            }
            begins.push_back(begin);
            if begins.len() as u64 > lines {
                begins.pop_front();
            }
            begin = position;
        }
        if begin < position {
            begins.push_back(begin);
            if begins.len() as u64 > lines {
                begins.pop_front();
            }
            begin = position;
        }
        self.unfinished.clear();
        let start = begins
            .front()
            .copied()
            .filter(|_| lines > 0)
            .unwrap_or(begin);
        self.reader.seek(SeekFrom::Start(start))?;
        Ok(())
    }

    /// Bytes of the file behind what was read.
    pub fn unread(&mut self) -> Result<u64> {
        let length = self.reader.get_ref().metadata()?.len();
        Ok(length.saturating_sub(self.reader.stream_position()?))
    }

    /// Goes to the first line that is within so many bytes at the end, and says where it is.
    fn skip_to_last(&mut self, bytes: u64) -> Result<u64> {
        let length = self.reader.get_ref().metadata()?.len();
        let Some(from) = length.checked_sub(bytes).filter(|from| *from > 0) else {
            return Ok(0);
        };
        self.reader.seek(SeekFrom::Start(from))?;
        let rest = self.line()?.unwrap_or_default();
        Ok(from + rest.len() as u64)
    }

    /// Opens the file that took the place of this one; `false` if none did.
    pub fn follow_rotation(&mut self) -> Result<bool> {
        let Ok(there) = opened(&self.path, &self.id).and_then(|file| file.metadata()) else {
            return Ok(false);
        };
        let here = self.reader.get_ref().metadata()?;
        if (there.dev(), there.ino()) == (here.dev(), here.ino()) {
            if there.len() < self.reader.stream_position()? {
                self.reader.rewind()?;
                return Ok(true);
            }
            return Ok(false);
        }
        // The old file may have got lines since it was read last.
        if !self.reader.fill_buf()?.is_empty() {
            return Ok(true);
        }
        *self = Self::open(&self.path, &self.id)?;
        Ok(true)
    }
}

/// Links that a container may have put in the way lead nowhere.
fn opened(path: &Path, id: &str) -> Result<File> {
    LogPlace::find(path)?.read(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(log: &mut FollowedLog) -> String {
        let mut text = Vec::new();
        while let Some(line) = log.line().unwrap() {
            text.extend(line);
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_link_that_a_container_put_in_its_log_s_place_is_not_shown() {
        let directory = tempfile::tempdir().unwrap();
        let secret = directory.path().join("secret");
        std::fs::write(&secret, "2026-01-01T00:00:01Z stdout F secret\n").unwrap();
        let path = directory.path().join("0.log");
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        let error = FollowedLog::open(&path, "0123").unwrap_err();
        assert!(error.to_string().contains("a link"), "{error:#}");
    }

    #[test]
    fn the_last_lines_are_looked_for_in_so_many_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        std::fs::write(&path, "one\npart-\ntwo\nthree\nfour\n").unwrap();
        let tail = |lines, bytes| {
            let mut log = FollowedLog::open(&path, "").unwrap();
            log.seek_tail(lines, bytes, |line| line.ends_with(b"-\n"))
                .unwrap();
            all(&mut log)
        };
        assert_eq!(tail(1, u64::MAX), "four\n");
        assert_eq!(tail(3, u64::MAX), "part-\ntwo\nthree\nfour\n");
        assert_eq!(tail(99, u64::MAX), "one\npart-\ntwo\nthree\nfour\n");
        assert_eq!(tail(99, 10), "four\n", "the line that is cut is left out");
        assert_eq!(tail(0, 12), "");
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_is_read_when_that_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        std::fs::write(&path, "one\n").unwrap();
        let mut log = FollowedLog::open(&path, "").unwrap();
        assert_eq!(all(&mut log), "one\n");
        std::fs::rename(&path, directory.path().join("0.log.1")).unwrap();
        assert!(!log.follow_rotation().unwrap(), "there is no other yet");
        std::fs::write(&path, "two\n").unwrap();
        assert!(log.follow_rotation().unwrap());
        assert_eq!(all(&mut log), "two\n");
        std::fs::write(&path, "3\n").unwrap();
        assert!(log.follow_rotation().unwrap(), "it was cut");
        assert_eq!(all(&mut log), "3\n");
    }
}
