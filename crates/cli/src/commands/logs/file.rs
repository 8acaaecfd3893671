//! A log file, read line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use orlop_cri::log::Entry;
use orlop_disk::LogPlace;

/// Longer lines than any runtime writes are cut into several, lest a log without lines fills
/// the memory.
const LONGEST_LINE: usize = 1 << 20;

/// A log file that may be rotated while it is read.
pub(super) struct Log {
    path: PathBuf,
    /// Its container.
    id: String,
    reader: BufReader<File>,
    /// A line whose end has not been written yet.
    unfinished: Vec<u8>,
}

impl Log {
    pub(super) fn open(path: &Path, id: &str) -> anyhow::Result<Self> {
        let file =
            opened(path, id).with_context(|| format!("cannot open the log {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            id: id.to_owned(),
            reader: BufReader::new(file),
            unfinished: Vec::new(),
        })
    }

    /// The next whole line.
    pub(super) fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
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

    /// Goes to where the last `lines` lines begin. What ends without a line end counts as one.
    pub(super) fn seek_tail(&mut self, lines: u64) -> anyhow::Result<()> {
        let mut begins = std::collections::VecDeque::new();
        let mut position = 0;
        let mut begin = 0;
        while let Some(line) = self.line()? {
            position += line.len() as u64;
            if Entry::parse(&line).is_ok_and(|entry| entry.partial) {
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
        self.reader.seek(io::SeekFrom::Start(start))?;
        Ok(())
    }

    /// Opens the file that took the place of this one; `false` if none did.
    pub(super) fn follow_rotation(&mut self) -> anyhow::Result<bool> {
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
fn opened(path: &Path, id: &str) -> io::Result<File> {
    LogPlace::find(path)?.read(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_a_container_put_in_its_log_s_place_is_not_shown() {
        let directory = tempfile::tempdir().unwrap();
        let secret = directory.path().join("secret");
        std::fs::write(&secret, "2026-01-01T00:00:01Z stdout F secret\n").unwrap();
        let path = directory.path().join("0.log");
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        let error = Log::open(&path, "0123").err().unwrap();
        assert!(format!("{error:#}").contains("a link"), "{error:#}");
    }
}
