//! A layer on disk, of which some parts may be missing.
//!
//! ```text
//! <layer>/image     the layer's bytes: a sparse file of the layer's size
//! <layer>/present   a byte for each part of 64 KiB: 0 missing, 1 present, 2 present and synced
//! ```
//!
//! The fetcher writes a part and then marks it; a reader checks the mark first. Each mark has its own byte, so that
//! several processes can write marks without a lost update. A layer of 1 GiB has 16 KiB of marks.
//!
//! After a power cut, a part with mark 1 may lack its data. Mark 2 is only written after the data was synced
//! ([`Parts::sync`]). After a boot, [`Parts::forget_unsynced`] clears all 1 marks.

use std::fs::{DirBuilder, File};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Size of a part in bytes; the last part of a layer may be smaller.
pub const PART: u64 = 64 << 10;

/// Maximum size of a layer in bytes.
pub const LARGEST: u64 = 1 << 44;

/// The name of the file with a layer's bytes.
pub const IMAGE: &str = "image";
const PRESENT: &str = "present";

/// The values of a part's mark.
const ABSENT: u8 = 0;
const WRITTEN: u8 = 1;
const SYNCED: u8 = 2;

/// Number of marks that are read or written at a time.
const MARKS: usize = 4096;

/// The open files of a layer.
#[derive(Debug)]
pub struct Parts {
    image: File,
    present: File,
    size: u64,
}

impl Parts {
    /// Creates the files of a layer without any parts, in a directory that may exist.
    pub fn create(directory: &Path, size: u64) -> io::Result<Self> {
        if size > LARGEST {
            return Err(invalid("a layer is too large"));
        }
        let made = DirBuilder::new().mode(0o700).create(directory);
        if let Err(error) = made
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(error);
        }
        let directory = open_directory(directory)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        // The image comes last: a directory without one does not count as a layer.
        let present = open_in(&directory, PRESENT, flags)?;
        present.set_len(size.div_ceil(PART))?;
        let image = open_in(&directory, IMAGE, flags)?;
        image.set_len(size)?;
        Ok(Self {
            image,
            present,
            size,
        })
    }

    /// Creates the marks of a layer whose image file already exists. All parts are marked as missing.
    pub fn adopt(directory: &Path) -> io::Result<Self> {
        let opened = open_directory(directory)?;
        let image = open_in(&opened, IMAGE, OFlags::RDWR | OFlags::NONBLOCK)?;
        let about = image.metadata()?;
        if !about.is_file() || about.len() > LARGEST {
            return Err(invalid(
                "the data of a layer is not a regular file or is too large",
            ));
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let present = open_in(&opened, PRESENT, flags)?;
        present.set_len(about.len().div_ceil(PART))?;
        Ok(Self {
            image,
            present,
            size: about.len(),
        })
    }

    /// Opens a layer's files for writing.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Self::open_with(directory, OFlags::RDWR)
    }

    /// Opens a layer's files for reading.
    pub fn open_to_read(directory: &Path) -> io::Result<Self> {
        Self::open_with(directory, OFlags::RDONLY)
    }

    fn open_with(directory: &Path, flags: OFlags) -> io::Result<Self> {
        let directory = open_directory(directory)?;
        // Opening a special file (such as a FIFO) must not block.
        let flags = flags | OFlags::NONBLOCK;
        let image = open_in(&directory, IMAGE, flags)?;
        let present = open_in(&directory, PRESENT, flags)?;
        let (about, marks) = (image.metadata()?, present.metadata()?);
        if !about.is_file() || !marks.is_file() {
            return Err(invalid("the files of a layer are not regular files"));
        }
        if about.len() > LARGEST || marks.len() != about.len().div_ceil(PART) {
            return Err(invalid(
                "the map of fetched parts does not match the size of the layer",
            ));
        }
        Ok(Self {
            image,
            present,
            size: about.len(),
        })
    }

    /// Returns the size of the layer in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the image file. The contents of unmarked parts are undefined.
    pub fn image(&self) -> &File {
        &self.image
    }

    /// Writes bytes of the layer. They count as present only after [`mark`](Self::mark).
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(invalid("the write exceeds the size of the layer"));
        }
        self.image.write_all_at(bytes, offset)
    }

    /// Marks whole parts, given by their byte range, as present. The marks survive a power cut only after
    /// [`sync`](Self::sync).
    pub fn mark(&self, bytes: Range<u64>) -> io::Result<()> {
        let whole = bytes.start.is_multiple_of(PART)
            && (bytes.end.is_multiple_of(PART) || bytes.end == self.size)
            && bytes.start <= bytes.end
            && bytes.end <= self.size;
        if !whole {
            return Err(invalid("the range to mark does not consist of whole parts"));
        }
        self.put_marks(parts_of(bytes), WRITTEN)
    }

    /// Reports whether all of these bytes are present.
    pub fn has(&self, bytes: Range<u64>) -> io::Result<bool> {
        let mut all = true;
        self.each_missing(bytes, |_| all = false)?;
        Ok(all)
    }

    /// Returns the missing whole parts of these bytes, in order and with neighbours joined.
    pub fn missing(&self, bytes: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        let mut missing: Vec<Range<u64>> = Vec::new();
        self.each_missing(bytes, |part| join(&mut missing, part))?;
        Ok(missing)
    }

    /// Syncs all parts that were marked before this call to disk.
    pub fn sync(&self) -> io::Result<()> {
        // Listed before the sync: parts that are marked during the sync may not be on disk.
        let written = self.unsynced()?;
        if written.is_empty() {
            return Ok(());
        }
        self.image.sync_data()?;
        for parts in written {
            self.put_marks(parts, SYNCED)?;
        }
        self.present.sync_data()
    }

    /// Clears the marks of parts that a power cut may have lost. Must be called after a boot, before any read.
    pub fn forget_unsynced(&self) -> io::Result<()> {
        for parts in self.unsynced()? {
            self.put_marks(parts, ABSENT)?;
        }
        self.present.sync_data()
    }

    /// Returns the parts that may not be on disk, with neighbours joined.
    fn unsynced(&self) -> io::Result<Vec<Range<u64>>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        self.each_mark(0..self.size.div_ceil(PART), |part, mark| {
            if mark == WRITTEN {
                join(&mut found, part..part + 1);
            }
        })?;
        Ok(found)
    }

    fn put_marks(&self, mut parts: Range<u64>, mark: u8) -> io::Result<()> {
        let marks = [mark; MARKS];
        while !parts.is_empty() {
            let count = (parts.end - parts.start).min(MARKS as u64);
            let marks = &marks[..count as usize];
            self.present.write_all_at(marks, parts.start)?;
            parts.start += count;
        }
        Ok(())
    }

    fn each_missing(&self, bytes: Range<u64>, mut found: impl FnMut(Range<u64>)) -> io::Result<()> {
        let bytes = bytes.start..bytes.end.min(self.size);
        self.each_mark(parts_of(bytes), |part, mark| {
            if mark != WRITTEN && mark != SYNCED {
                let start = part * PART;
                found(start..(start + PART).min(self.size));
            }
        })
    }

    /// Calls `look` with the mark of each part. Marks past the file's end count as absent.
    fn each_mark(&self, mut parts: Range<u64>, mut look: impl FnMut(u64, u8)) -> io::Result<()> {
        // Most calls only read a few marks.
        let mut few = [ABSENT; 32];
        let mut many = Vec::new();
        while !parts.is_empty() {
            let count = (parts.end - parts.start).min(MARKS as u64) as usize;
            let marks = if count <= few.len() {
                &mut few[..count]
            } else {
                many.resize(MARKS, ABSENT);
                &mut many[..count]
            };
            let read = self.present.read_at(marks, parts.start)?;
            if read == 0 {
                marks.fill(ABSENT);
            }
            let seen = if read == 0 { count } else { read };
            for (part, mark) in (parts.start..).zip(&marks[..seen]) {
                look(part, *mark);
            }
            parts.start += seen as u64;
        }
        Ok(())
    }
}

/// Returns the parts that contain these bytes.
fn parts_of(bytes: Range<u64>) -> Range<u64> {
    if bytes.is_empty() {
        return 0..0;
    }
    bytes.start / PART..bytes.end.div_ceil(PART)
}

/// Appends a range that lies behind all others.
fn join(ranges: &mut Vec<Range<u64>>, next: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => ranges.push(next),
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

fn open_in(directory: &OwnedFd, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::from_bits_truncate(0o600))?;
    Ok(File::from(file))
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(size: u64) -> (tempfile::TempDir, Parts) {
        let dir = tempfile::tempdir().unwrap();
        let parts = Parts::create(&dir.path().join("layer"), size).unwrap();
        (dir, parts)
    }

    #[test]
    fn only_what_is_marked_is_here() {
        let size = 10 * PART + 100;
        let (dir, parts) = layer(size);
        assert!(!parts.has(0..1).unwrap());
        parts.write(2 * PART, &vec![7; 2 * PART as usize]).unwrap();
        assert!(!parts.has(2 * PART..3 * PART).unwrap(), "not marked yet");
        parts.mark(2 * PART..4 * PART).unwrap();
        parts.mark(10 * PART..size).unwrap();
        let other = Parts::open_to_read(&dir.path().join("layer")).unwrap();
        assert!(other.has(2 * PART + 5..4 * PART).unwrap());
        assert!(!other.has(2 * PART..4 * PART + 1).unwrap());
        assert!(other.has(10 * PART + 99..size + PART).unwrap());
        assert_eq!(
            other.missing(0..size).unwrap(),
            [0..2 * PART, 4 * PART..10 * PART]
        );
        let one = other.missing(3 * PART..5 * PART).unwrap();
        assert!(one.len() == 1 && one[0] == (4 * PART..5 * PART));
    }

    #[test]
    fn no_part_is_marked_by_half() {
        let (_dir, parts) = layer(3 * PART + 1);
        for bytes in [1..PART, 0..PART - 1, 0..4 * PART, 3 * PART..3 * PART + 2] {
            parts.mark(bytes).unwrap_err();
        }
        parts.write(3 * PART, &[1, 2]).unwrap_err();
        parts.write(u64::MAX, &[1]).unwrap_err();
        let all = parts.missing(0..u64::MAX).unwrap();
        assert!(all.len() == 1 && all[0] == (0..3 * PART + 1));
    }

    #[test]
    fn what_was_not_synced_is_forgotten_after_a_boot() {
        let (_dir, parts) = layer(5000 * PART);
        parts.mark(PART..4900 * PART).unwrap();
        parts.sync().unwrap();
        parts.mark(4990 * PART..4991 * PART).unwrap();
        parts.forget_unsynced().unwrap();
        let all = 0..5000 * PART;
        assert_eq!(
            parts.missing(all).unwrap(),
            [0..PART, 4900 * PART..5000 * PART]
        );
    }

    #[test]
    fn files_that_are_no_layer_are_refused() {
        let (dir, _parts) = layer(PART * 2);
        let layer = dir.path().join("layer");
        Parts::create(&layer, PART).unwrap_err();
        std::fs::write(layer.join(PRESENT), [1; 3]).unwrap();
        Parts::open(&layer).unwrap_err();
        std::fs::write(layer.join(PRESENT), [1; 2]).unwrap();
        Parts::open(&layer).unwrap();
        // The file behind the link would be usable.
        std::fs::rename(layer.join(IMAGE), dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", layer.join(IMAGE)).unwrap();
        Parts::open(&layer).unwrap_err();
        Parts::create(dir.path(), LARGEST + 1).unwrap_err();
    }
}
