//! Reads a log file that grows and is rotated meanwhile.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Result, Seek, SeekFrom};
use std::os::unix::fs::{FileExt as _, MetadataExt};
use std::path::{Path, PathBuf};

use crate::LogPlace;

/// Longer lines than any runtime writes are cut into several, so that a log without line ends does not fill the memory.
const LONGEST_LINE: usize = 1 << 20;

/// The size of a block read from the end.
const BLOCK: u64 = 64 << 10;

/// A log file, read line by line.
#[derive(Debug)]
pub struct FollowedLog {
    path: PathBuf,
    /// The ID of the container.
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

    /// Reads the next complete line.
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

    /// Seeks to the start of the last `lines` lines, within at most `bytes` bytes at the end. An unfinished line counts
    /// as one; a line that `goes_on` in the next line of the file counts with it as one.
    pub fn seek_tail(
        &mut self,
        lines: u64,
        bytes: u64,
        goes_on: impl Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let length = self.reader.get_ref().metadata()?.len();
        let floor = length.saturating_sub(bytes);
        let backwards = Backwards::new(self.reader.get_ref(), floor);
        let start = match backwards.find_tail(length, lines, goes_on) {
            // The file was truncated meanwhile: all its content is new.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
            found => found?,
        };
        self.unfinished.clear();
        self.reader.seek(SeekFrom::Start(start))?;
        Ok(())
    }

    /// Returns the number of bytes after the read position.
    pub fn unread(&mut self) -> Result<u64> {
        let length = self.reader.get_ref().metadata()?.len();
        Ok(length.saturating_sub(self.reader.stream_position()?))
    }

    /// Opens the file that replaced this one; `false` if it was not replaced.
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
        // The old file may have grown since the last read.
        if !self.reader.fill_buf()?.is_empty() {
            return Ok(true);
        }
        *self = Self::open(&self.path, &self.id)?;
        Ok(true)
    }
}

/// A file that is read backwards, only as far as needed.
struct Backwards<'a> {
    file: &'a File,
    /// The position before which nothing is read.
    floor: u64,
    /// The block read last, and its position.
    block: Vec<u8>,
    begin: u64,
}

impl<'a> Backwards<'a> {
    fn new(file: &'a File, floor: u64) -> Self {
        Self {
            file,
            floor,
            block: Vec::new(),
            begin: 0,
        }
    }

    /// Finds the start of the last lines.
    fn find_tail(
        mut self,
        length: u64,
        lines: u64,
        goes_on: impl Fn(&[u8]) -> bool,
    ) -> Result<u64> {
        // An unfinished line is not counted.
        let end = self.begin_of(length)?.unwrap_or(self.floor);
        let (mut start, mut counted) = (end, 0);
        while start > self.floor {
            // The line end at its own end does not belong to an earlier line.
            let Some(begin) = self.begin_of(start - 1)? else {
                break;
            };
            // A line that is marked as a part continues in the next line, and is not counted. The last line of the
            // file is counted in any case.
            if start == end || !goes_on(&self.text(begin, start)?) {
                if counted == lines {
                    break;
                }
                counted += 1;
            }
            start = begin;
        }
        Ok(start)
    }

    /// Finds the start of the line at a position, at most the longest line away; `None` if it is before the floor.
    fn begin_of(&mut self, place: u64) -> Result<Option<u64>> {
        let farthest = place.saturating_sub(LONGEST_LINE as u64).max(self.floor);
        if let Some(end) = self.line_end(place, farthest)? {
            return Ok(Some(end + 1));
        }
        let is_cut = farthest > self.floor;
        Ok((is_cut || farthest == 0).then_some(farthest))
    }

    /// Finds the last line end before a position, not before `farthest`.
    fn line_end(&mut self, mut before: u64, farthest: u64) -> Result<Option<u64>> {
        while before > farthest {
            if !self.has(before - 1, before) {
                self.begin = before.saturating_sub(BLOCK);
                let size = before - self.begin;
                self.block
                    .resize(usize::try_from(size).unwrap_or_default(), 0);
                self.file.read_exact_at(&mut self.block, self.begin)?;
            }
            let from = farthest.max(self.begin);
            let part = self.part(from, before);
            if let Some(end) = part.iter().rposition(|byte| *byte == b'\n') {
                return Ok(Some(from + end as u64));
            }
            before = from;
        }
        Ok(None)
    }

    fn has(&self, from: u64, to: u64) -> bool {
        from >= self.begin && to <= self.begin + self.block.len() as u64
    }

    /// Returns a part of the block read last.
    fn part(&self, from: u64, to: u64) -> &[u8] {
        let place = |at: u64| usize::try_from(at - self.begin).unwrap_or_default();
        &self.block[place(from)..place(to)]
    }

    fn text(&self, from: u64, to: u64) -> Result<Cow<'_, [u8]>> {
        if self.has(from, to) {
            return Ok(self.part(from, to).into());
        }
        let mut text = vec![0; usize::try_from(to - from).unwrap_or_default()];
        self.file.read_exact_at(&mut text, from)?;
        Ok(text.into())
    }
}

/// Opens a log; symlinks placed by a container are not followed.
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
        assert!(error.to_string().contains("a symbolic link"), "{error:#}");
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

    /// Returns the start of the last lines, found by reading the whole text.
    fn expected(text: &[u8], lines: usize, floor: usize) -> usize {
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let cut = |from: usize| Some(from + text[from..].iter().position(|b| *b == b'\n')? + 1);
        let mut begin = if floor == 0 {
            0
        } else {
            cut(floor).unwrap_or(floor)
        };
        let mut begins = vec![];
        let mut next = begin;
        for line in text[begin..whole.max(begin)].split_inclusive(|byte| *byte == b'\n') {
            next += line.len();
            if !line.ends_with(b"-\n") || next == whole {
                begins.push(begin);
                begin = next;
            }
        }
        let kept = begins.len().saturating_sub(lines);
        begins.get(kept).copied().unwrap_or(begin)
    }

    #[test]
    fn the_last_lines_are_the_same_as_if_all_were_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let mut state = 7_u64;
        let mut chance = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let mut text = Vec::new();
            for _ in 0..chance(12) {
                // Some lines are about as long as a block, some longer than several.
                let length = match chance(4) {
                    0 => BLOCK - 3 + chance(6),
                    1 => chance(3 * BLOCK),
                    _ => chance(4),
                };
                text.resize(text.len() + length as usize, b'x');
                text.extend(if chance(3) == 0 { &b"-\n"[..] } else { b"\n" });
            }
            if chance(2) == 0 {
                text.extend(b"unfinished");
            }
            std::fs::write(&path, &text).unwrap();
            let lines = chance(8);
            let floor = chance(2) * chance(text.len() as u64 + 1);
            let mut log = FollowedLog::open(&path, "").unwrap();
            let bytes = text.len() as u64 - floor;
            log.seek_tail(lines, bytes, |line| line.ends_with(b"-\n"))
                .unwrap();
            let found = log.reader.stream_position().unwrap();
            let expected = expected(&text, lines as usize, floor as usize);
            assert_eq!(
                found,
                expected as u64,
                "{lines} lines from {floor} of {}",
                text.len()
            );
        }
    }

    /// Bytes read by this thread (proc(5)).
    fn read_so_far() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let figure = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        figure.unwrap().parse().unwrap()
    }

    #[test]
    fn the_end_of_a_large_log_is_found_without_reading_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let file = File::create(&path).unwrap();
        let end = b"\nlast but one\nlast\n";
        let hole = 1 << 30;
        file.write_all_at(end, hole).unwrap();
        let mut log = FollowedLog::open(&path, "").unwrap();
        let before = read_so_far();
        log.seek_tail(2, u64::MAX, |_| false).unwrap();
        let read = read_so_far() - before;
        // The part before them looks like one line of the maximum length.
        assert!(read < 3 * LONGEST_LINE as u64, "{read} bytes were read");
        assert_eq!(all(&mut log), "last but one\nlast\n");
        // A text without line ends is split, as when it is read forwards.
        log.seek_tail(4, u64::MAX, |_| false).unwrap();
        let begin = hole - 2 * LONGEST_LINE as u64 - 1;
        assert_eq!(log.reader.stream_position().unwrap(), begin);
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
