//! A layer on disk, of which some parts are not here yet.
//!
//! ```text
//! <layer>/image     the layer's bytes: a sparse file of the layer's size
//! <layer>/present   a byte for each part of 64 KiB: 0 not here, 1 here, 2 here and on the disk
//! ```
//!
//! Who fetches a part writes it, then marks it; who reads a part looks at its mark first. A mark has
//! a byte of its own, so that any number of processes may write and none takes away what another
//! marked. A layer of 1 GiB has 16 KiB of marks.
//!
//! A power cut may leave a 1 without its data. A 2 is written only after the data was synced
//! ([`Parts::sync`]); after a boot the 1s are taken back ([`Parts::forget_unsynced`]).

use std::fs::{DirBuilder, File};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

/// How many bytes a part has; the last one of a layer may have fewer.
pub const PART: u64 = 64 << 10;

/// The largest layer, in bytes.
pub const LARGEST: u64 = 1 << 44;

/// The name of a layer's bytes in its directory.
pub const IMAGE: &str = "image";
const PRESENT: &str = "present";

/// A part's mark.
const ABSENT: u8 = 0;
const WRITTEN: u8 = 1;
const SYNCED: u8 = 2;

/// How many marks are looked at or written at a time.
const MARKS: usize = 4096;

/// A layer's files.
#[derive(Debug)]
pub struct Parts {
    image: File,
    present: File,
    size: u64,
}

impl Parts {
    /// Makes the files of a layer of which nothing is here, in a directory that may exist.
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
        // The image last: a layer without one is none.
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

    /// Makes the marks of a layer whose bytes have a file already. Nothing of it is here.
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

    /// Opens a layer's files to write.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Self::open_with(directory, OFlags::RDWR)
    }

    /// Opens a layer's files to read.
    pub fn open_to_read(directory: &Path) -> io::Result<Self> {
        Self::open_with(directory, OFlags::RDONLY)
    }

    fn open_with(directory: &Path, flags: OFlags) -> io::Result<Self> {
        let directory = open_directory(directory)?;
        // What is no regular file must not hold up who opens it.
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

    /// How many bytes the layer has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The layer's bytes. What is not marked reads as anything.
    pub fn image(&self) -> &File {
        &self.image
    }

    /// Writes bytes of the layer. They are here when they are marked.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(invalid("the write exceeds the size of the layer"));
        }
        self.image.write_all_at(bytes, offset)
    }

    /// Says that whole parts, given by their bytes, are written. This lasts until a power cut, unless
    /// [`sync`](Self::sync) comes first.
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

    /// Whether all of these bytes are here.
    pub fn has(&self, bytes: Range<u64>) -> io::Result<bool> {
        let mut all = true;
        self.each_missing(bytes, |_| all = false)?;
        Ok(all)
    }

    /// What of these bytes is not here: whole parts, neighbours joined, in order.
    pub fn missing(&self, bytes: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        let mut missing: Vec<Range<u64>> = Vec::new();
        self.each_missing(bytes, |part| join(&mut missing, part))?;
        Ok(missing)
    }

    /// Has the disk keep what was marked before this call.
    pub fn sync(&self) -> io::Result<()> {
        // Before the data is synced: what is marked while that goes on may not be on the disk.
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

    /// Takes back the marks of what may have been lost with the power. To be called after a boot,
    /// before anybody reads.
    pub fn forget_unsynced(&self) -> io::Result<()> {
        for parts in self.unsynced()? {
            self.put_marks(parts, ABSENT)?;
        }
        self.present.sync_data()
    }

    /// The parts of which it is not known whether the disk has them, neighbours joined.
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

    /// Looks at the marks of these parts. One that is not in the file is none.
    fn each_mark(&self, mut parts: Range<u64>, mut look: impl FnMut(u64, u8)) -> io::Result<()> {
        // Most look at a few.
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

/// The parts that these bytes touch.
fn parts_of(bytes: Range<u64>) -> Range<u64> {
    if bytes.is_empty() {
        return 0..0;
    }
    bytes.start / PART..bytes.end.div_ceil(PART)
}

/// Adds a range that lies behind all that are there.
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
        // What it leads to would do.
        std::fs::rename(layer.join(IMAGE), dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", layer.join(IMAGE)).unwrap();
        Parts::open(&layer).unwrap_err();
        Parts::create(dir.path(), LARGEST + 1).unwrap_err();
    }
}
