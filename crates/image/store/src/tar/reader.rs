//! Reads an archive entry by entry.

use std::io::{self, BufRead};

use super::entry::{Entry, EntryKind, Mtime, Segment, SparseFile};
use super::header::{BLOCK, Header};
use super::pax::Extended;
use super::sparse;
use crate::{Error, Result};

/// Receiver of every byte of the archive that is not file content, so that the archive can be reconstructed.
pub(crate) trait Record {
    /// Records bytes of the archive itself: headers, padding, the end.
    fn literal(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl Record for () {
    fn literal(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Limits on an archive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Maximum size of one extended header, long name or sparse map.
    pub(crate) header_bytes: u64,
    /// Maximum size of everything that is not file content.
    pub(crate) overhead_bytes: u64,
}

/// Reader of the entries of an archive. After each [`Reader::next`], the caller reads the entry's content with
/// [`Reader::content`]; otherwise it is skipped and recorded.
pub(crate) struct Reader<'a, R, J> {
    input: R,
    record: J,
    what: &'a str,
    bounds: Bounds,
    /// Bytes of the current entry's content that were not read yet.
    remaining: u64,
    /// Bytes of padding after it.
    padding: u64,
    /// Bytes so far that were not file content.
    overhead: u64,
}

impl<'a, R: BufRead, J: Record> Reader<'a, R, J> {
    pub(crate) fn new(what: &'a str, input: R, record: J, bounds: Bounds) -> Self {
        Self {
            input,
            record,
            what,
            bounds,
            remaining: 0,
            padding: 0,
            overhead: 0,
        }
    }

    /// Returns the next entry, or `None` at the end of the archive.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        self.skip_rest()?;
        let mut extended = Extended::default();
        let mut long_name = None;
        let mut long_link = None;
        loop {
            let Some(block) = self.block()? else {
                return Ok(None);
            };
            if block.iter().all(|byte| *byte == 0) {
                return self.end();
            }
            let header = Header::new(&block).map_err(|reason| self.malformed(reason))?;
            match header.type_flag() {
                b'x' => {
                    let text = self.extension(&header, "extended header")?;
                    extended = Extended::parse(&text).map_err(|reason| self.malformed(reason))?;
                }
                // Global headers contain comments (git), and nothing that a layer needs.
                b'g' => drop(self.extension(&header, "global header")?),
                b'L' => long_name = Some(self.long_text(&header, "long name")?),
                b'K' => long_link = Some(self.long_text(&header, "long link")?),
                b'V' => drop(self.extension(&header, "volume label")?),
                _ => {
                    return self
                        .entry(&header, extended, long_name, long_link)
                        .map(Some);
                }
            }
        }
    }

    /// Passes the current entry's content on in pieces, at most `limit` bytes of it.
    pub(crate) fn content(
        &mut self,
        limit: u64,
        mut sink: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut left = limit.min(self.remaining);
        while left > 0 {
            let piece = self
                .input
                .fill_buf()
                .map_err(|error| broken(self.what, error))?;
            if piece.is_empty() {
                return Err(self.malformed("it ends in the middle of a file"));
            }
            let take = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            sink(&piece[..take])?;
            self.input.consume(take);
            left -= take as u64;
            self.remaining -= take as u64;
        }
        Ok(())
    }

    /// Returns the recorder of the archive.
    pub(crate) fn record_mut(&mut self) -> &mut J {
        &mut self.record
    }

    /// Reads all data after the end of the archive, and returns the recorder.
    pub(crate) fn finish(mut self) -> Result<J> {
        loop {
            let piece = self
                .input
                .fill_buf()
                .map_err(|error| broken(self.what, error))?;
            if piece.is_empty() {
                return Ok(self.record);
            }
            let taken = piece.len();
            spend(&mut self.overhead, taken, self.bounds, self.what)?;
            self.record.literal(piece).map_err(unrecorded)?;
            self.input.consume(taken);
        }
    }

    fn entry(
        &mut self,
        header: &Header<'_>,
        extended: Extended,
        long_name: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
    ) -> Result<Entry> {
        let Extended {
            path,
            link,
            size,
            uid,
            gid,
            mtime,
            xattrs,
            sparse,
        } = extended;
        let mut path = path.or(long_name).unwrap_or_else(|| header.name());
        let link = link.or(long_link).unwrap_or_else(|| header.link());
        let size = match size {
            Some(size) => size,
            None => self.unsigned(header.size(), "size")?,
        };
        let kind = match header.type_flag() {
            // Before POSIX, a directory was a file with a trailing slash in its name.
            b'\0' if path.ends_with(b"/") => EntryKind::Directory,
            b'0' | b'\0' | b'7' | b'S' => {
                self.expect_content(size)?;
                let sparse_file = if header.type_flag() == b'S' {
                    Some(self.gnu_sparse(header, size)?)
                } else {
                    if let Some(name) = &sparse.name {
                        path.clone_from(name);
                    }
                    self.pax_sparse(sparse)?
                };
                EntryKind::File {
                    stored: self.remaining,
                    sparse: sparse_file,
                }
            }
            b'1' => EntryKind::HardLink(link),
            b'2' => EntryKind::Symlink(link),
            flag @ (b'3' | b'4') => {
                let (major, minor) = header
                    .device()
                    .ok_or_else(|| self.malformed("a device number is malformed"))?;
                let narrow = |n| {
                    u32::try_from(n).map_err(|_| self.malformed("a device number is malformed"))
                };
                let (major, minor) = (narrow(major)?, narrow(minor)?);
                if flag == b'3' {
                    EntryKind::CharDevice { major, minor }
                } else {
                    EntryKind::BlockDevice { major, minor }
                }
            }
            b'5' => EntryKind::Directory,
            b'6' => EntryKind::Fifo,
            other => {
                return Err(self.malformed(format!(
                    "{:?} has the unknown type {:?}",
                    String::from_utf8_lossy(&path),
                    char::from(other)
                )));
            }
        };
        let id = |stated: Option<u64>, field: Option<i64>, name| match stated {
            Some(id) => {
                u32::try_from(id).map_err(|_| self.malformed(format!("a {name} is too large")))
            }
            None => field
                .and_then(|id| u32::try_from(id).ok())
                .ok_or_else(|| self.malformed(format!("a {name} is malformed"))),
        };
        Ok(Entry {
            kind,
            mode: (self.unsigned(header.mode(), "mode")? & 0o7777) as u32,
            uid: id(uid, header.uid(), "uid")?,
            gid: id(gid, header.gid(), "gid")?,
            mtime: match mtime {
                Some(mtime) => mtime,
                None => Mtime {
                    seconds: header
                        .mtime()
                        .ok_or_else(|| self.malformed("a time is malformed"))?,
                    nanoseconds: 0,
                },
            },
            xattrs,
            path,
        })
    }

    fn gnu_sparse(&mut self, header: &Header<'_>, stored: u64) -> Result<SparseFile> {
        let (size, first, mut more) = header
            .gnu_sparse()
            .ok_or_else(|| self.malformed("a sparse header is malformed"))?;
        let size = self.unsigned(Some(size), "sparse size")?;
        let mut segments = Vec::new();
        sparse::gnu_entries(first, &mut segments).map_err(|reason| self.malformed(reason))?;
        while more {
            let block = self
                .block()?
                .ok_or_else(|| self.malformed("it ends in the middle of a sparse map"))?;
            sparse::gnu_entries(&block[..sparse::GNU_EXTENSION_ENTRIES], &mut segments)
                .map_err(|reason| self.malformed(reason))?;
            more = sparse::gnu_more(&block);
        }
        self.sparse_file(size, segments, stored)
    }

    fn pax_sparse(&mut self, keys: super::pax::SparseKeys) -> Result<Option<SparseFile>> {
        let segments = match (keys.major, keys.minor) {
            (Some(1), Some(0)) => self.leading_map()?,
            (None | Some(0), _) => match keys.map {
                Some(map) => map,
                None => return Ok(None),
            },
            _ => return Err(self.malformed("it uses an unknown sparse format")),
        };
        let size = keys
            .size
            .ok_or_else(|| self.malformed("a sparse file has no size"))?;
        let stored = self.remaining;
        self.sparse_file(size, segments, stored).map(Some)
    }

    /// Reads the map of a pax 1.0 sparse file, which precedes its content.
    fn leading_map(&mut self) -> Result<Vec<Segment>> {
        let mut text = Vec::new();
        loop {
            if text.len() as u64 >= self.bounds.header_bytes {
                return Err(Error::too_large(
                    format!("a sparse map in {}", self.what),
                    format!("{} bytes", self.bounds.header_bytes),
                ));
            }
            if self.remaining < BLOCK as u64 {
                return Err(self.malformed("it ends in the middle of a sparse map"));
            }
            let block = self
                .block()?
                .ok_or_else(|| self.malformed("it ends in the middle of a sparse map"))?;
            self.remaining -= BLOCK as u64;
            text.extend_from_slice(&block);
            // Parsing from the start after every block would be quadratic for a long map.
            let often = text.len() < 64 * BLOCK || text.len().is_multiple_of(64 * BLOCK);
            let last = text.contains(&0) || self.remaining == 0;
            if (often || last)
                && let Some(map) =
                    sparse::pax_map(&text).map_err(|reason| self.malformed(reason))?
            {
                return Ok(map);
            }
        }
    }

    fn sparse_file(&self, size: u64, segments: Vec<Segment>, stored: u64) -> Result<SparseFile> {
        sparse::check(&segments, size, stored).map_err(|reason| self.malformed(reason))?;
        Ok(SparseFile { size, segments })
    }

    fn long_text(&mut self, header: &Header<'_>, name: &str) -> Result<Vec<u8>> {
        let mut text = self.extension(header, name)?;
        if let Some(end) = text.iter().position(|byte| *byte == 0) {
            text.truncate(end);
        }
        Ok(text)
    }

    /// Reads the body of a header that describes the next entry.
    fn extension(&mut self, header: &Header<'_>, name: &str) -> Result<Vec<u8>> {
        let size = self.unsigned(header.size(), "size")?;
        if size > self.bounds.header_bytes {
            return Err(Error::too_large(
                format!("a {name} in {}", self.what),
                format!("{} bytes", self.bounds.header_bytes),
            ));
        }
        let mut body = Vec::new();
        while (body.len() as u64) < size {
            let block = self
                .block()?
                .ok_or_else(|| self.malformed(format!("it ends in the middle of a {name}")))?;
            body.extend_from_slice(&block);
        }
        body.truncate(usize::try_from(size).unwrap_or(0));
        Ok(body)
    }

    fn expect_content(&mut self, size: u64) -> Result<()> {
        self.remaining = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        size.checked_add(BLOCK as u64)
            .map(|_| ())
            .ok_or_else(|| self.malformed("a size is out of range"))
    }

    /// Records content that was not read as archive bytes.
    fn skip_rest(&mut self) -> Result<()> {
        for left in [
            std::mem::take(&mut self.remaining),
            std::mem::take(&mut self.padding),
        ] {
            let mut left = left;
            while left > 0 {
                let piece = self
                    .input
                    .fill_buf()
                    .map_err(|error| broken(self.what, error))?;
                if piece.is_empty() {
                    return Err(self.malformed("it ends in the middle of a file"));
                }
                let take = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                spend(&mut self.overhead, take, self.bounds, self.what)?;
                self.record.literal(&piece[..take]).map_err(unrecorded)?;
                self.input.consume(take);
                left -= take as u64;
            }
        }
        Ok(())
    }

    /// Handles a zero block. A second one should follow, but some programs write only one, or none.
    fn end(&mut self) -> Result<Option<Entry>> {
        match self.block()? {
            Some(block) if block.iter().any(|byte| *byte != 0) => {
                Err(self.malformed("data follows the end of the archive"))
            }
            _ => Ok(None),
        }
    }

    /// Reads and records one block. Returns `None` at the end of the input.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            let piece = self
                .input
                .fill_buf()
                .map_err(|error| broken(self.what, error))?;
            if piece.is_empty() {
                if filled == 0 {
                    return Ok(None);
                }
                return Err(self.malformed("it ends in the middle of a header"));
            }
            let take = piece.len().min(BLOCK - filled);
            block[filled..filled + take].copy_from_slice(&piece[..take]);
            self.input.consume(take);
            filled += take;
        }
        spend(&mut self.overhead, BLOCK, self.bounds, self.what)?;
        self.record.literal(&block).map_err(unrecorded)?;
        Ok(Some(block))
    }

    fn unsigned(&self, value: Option<i64>, name: &str) -> Result<u64> {
        value
            .and_then(|value| u64::try_from(value).ok())
            .ok_or_else(|| self.malformed(format!("a {name} is malformed")))
    }

    fn malformed(&self, reason: impl Into<String>) -> Error {
        Error::invalid(self.what, reason.into())
    }
}

/// Counts bytes that use no disk space, because a malicious archive may contain nothing else.
fn spend(overhead: &mut u64, bytes: usize, bounds: Bounds, what: &str) -> Result<()> {
    *overhead = overhead.saturating_add(bytes as u64);
    if *overhead <= bounds.overhead_bytes {
        return Ok(());
    }
    Err(Error::too_large(
        format!("the tar metadata of {what}"),
        format!("{} bytes", bounds.overhead_bytes),
    ))
}

fn broken(what: &str, error: io::Error) -> Error {
    Error::invalid(what, error)
}

fn unrecorded(error: io::Error) -> Error {
    Error::io("recording a layer's headers", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        header_bytes: 4096,
        overhead_bytes: 1 << 20,
    };

    fn read(bytes: &[u8]) -> Result<Vec<(Entry, Vec<u8>)>> {
        let mut reader = Reader::new("archive", bytes, (), BOUNDS);
        let mut entries = Vec::new();
        while let Some(entry) = reader.next()? {
            let mut content = Vec::new();
            reader.content(u64::MAX, |piece| {
                content.extend_from_slice(piece);
                Ok(())
            })?;
            entries.push((entry, content));
        }
        reader.finish()?;
        Ok(entries)
    }

    fn one(path: &str, data: &[u8]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o4755);
        header.set_uid(7);
        header.set_mtime(42);
        builder.append_data(&mut header, path, data).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn entries_written_by_another_tool_are_read() {
        let long = "d/".repeat(90) + "file";
        let entries = read(&one(&long, b"hello")).unwrap();
        let (entry, content) = &entries[0];
        assert_eq!(entry.path, long.as_bytes());
        assert_eq!(
            (entry.mode, entry.uid, entry.mtime.seconds),
            (0o4755, 7, 42)
        );
        assert_eq!(content, b"hello");
    }

    #[test]
    fn truncation_is_noticed_wherever_it_happens() {
        let whole = one("file", &[1; 700]);
        for length in [100, 511, 513, 600, 1211] {
            assert!(read(&whole[..length]).is_err(), "cut at {length}");
        }
        // A missing end marker is common and harmless.
        assert_eq!(read(&whole[..512 + 1024]).unwrap().len(), 1);
    }

    #[test]
    fn a_flipped_bit_in_a_header_is_noticed() {
        let mut archive = one("file", b"x");
        archive[3] ^= 1;
        assert!(read(&archive).unwrap_err().to_string().contains("checksum"));
    }

    #[test]
    fn headers_beyond_the_bound_are_refused() {
        let error = read(&one(&"x".repeat(5000), b"")).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }
}
