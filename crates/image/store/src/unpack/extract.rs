//! Writes the entries of a layer's archive to a target, and translates whiteouts for overlayfs.

use std::io::{self, BufRead};

use rustix::io::Errno;

use super::root::clean;
use super::target::{Linked, Problem, Target};
use super::unpacked::Unpacked;
use crate::limits::Limits;
use crate::tar::{Bounds, Entry, EntryKind, Reader, Record, Segment};
use crate::{Error, Result};
use orlop_fs::Room;

/// Prefix of names that are instructions (OCI image layer specification, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
const WHITEOUT_META: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Recorder of the location of each file's content on disk.
pub(crate) trait RecordFiles: Record {
    /// Records that the next `length` bytes of the archive are at `offset` in the file at `path` (clean).
    fn content(&mut self, path: &[u8], offset: u64, length: u64) -> io::Result<()>;
    /// Records that a file with recorded content was overwritten: the archive can no longer be reconstructed.
    fn overwritten(&mut self);
}

impl RecordFiles for () {
    fn content(&mut self, _: &[u8], _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn overwritten(&mut self) {}
}

/// Counter of file bytes, which is asked before they are written.
pub(crate) trait Spending: Sync {
    /// Counts more bytes, or fails if they exceed the limit.
    fn spend(&self, bytes: u64) -> Result<()>;
}

impl Spending for () {
    fn spend(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Unpacks the archive `input` to the target.
pub(super) fn extract<R: BufRead, J: RecordFiles, T: Target>(
    what: &str,
    input: R,
    record: J,
    target: T,
    limits: &Limits,
    spending: &dyn Spending,
) -> Result<(Unpacked, T::Rest, J)> {
    extract_to(
        what,
        input,
        record,
        target,
        limits,
        Room::default(),
        spending,
    )
}

fn extract_to<R: BufRead, J: RecordFiles, T: Target>(
    what: &str,
    input: R,
    record: J,
    target: T,
    limits: &Limits,
    room: Room,
    spending: &dyn Spending,
) -> Result<(Unpacked, T::Rest, J)> {
    let bounds = Bounds {
        header_bytes: limits.header_bytes,
        overhead_bytes: limits.overhead_bytes,
    };
    let mut reader = Reader::new(what, input, record, bounds);
    let mut extractor = Extractor {
        what,
        target,
        limits,
        entries: 0,
        bytes: 0,
        room,
        spending,
    };
    while let Some(entry) = reader.next()? {
        extractor.entry(entry, &mut reader)?;
    }
    let record = reader.finish()?;
    let (unpacked, rest) = extractor.finish()?;
    Ok((unpacked, rest, record))
}

struct Extractor<'a, T> {
    what: &'a str,
    target: T,
    limits: &'a Limits,
    entries: u64,
    /// Bytes of file content.
    bytes: u64,
    room: Room,
    spending: &'a dyn Spending,
}

impl<T: Target> Extractor<'_, T> {
    fn entry<R: BufRead, J: RecordFiles>(
        &mut self,
        entry: Entry,
        reader: &mut Reader<'_, R, J>,
    ) -> Result<()> {
        self.entries += 1;
        if self.entries > self.limits.layer_entries {
            return Err(Error::too_large(
                format!("the number of files in {}", self.what),
                self.limits.layer_entries,
            ));
        }
        let entered = self.room.entry(self.target.disk());
        entered.map_err(|error| self.failed_io(&entry.path, error))?;
        let path = clean(&entry.path).map_err(|reason| self.refuse(&entry.path, reason))?;
        if path.is_empty() {
            return self.root_entry(&entry);
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(&path);
        if name.starts_with(WHITEOUT) {
            self.whiteout(&path, name)?;
        } else if self.put(&path, &entry, reader)? {
            reader.record_mut().overwritten();
        }
        let held = self.target.held();
        if held > self.limits.bookkeeping_bytes {
            return Err(Error::too_large(
                format!("the directory list of {}", self.what),
                format!("{} bytes of memory", self.limits.bookkeeping_bytes),
            ));
        }
        Ok(())
    }

    /// Writes an entry to the target. Returns whether it overwrote a recorded entry.
    fn put<R: BufRead, J: RecordFiles>(
        &mut self,
        path: &[u8],
        entry: &Entry,
        reader: &mut Reader<'_, R, J>,
    ) -> Result<bool> {
        match &entry.kind {
            EntryKind::File { .. } => return self.file(path, entry, reader),
            EntryKind::HardLink(target) => return self.hard_link(path, target),
            EntryKind::Symlink(target) if target.is_empty() || target.contains(&0) => {
                return Err(self.refuse(
                    path,
                    "it is a symbolic link with an empty or invalid target",
                ));
            }
            EntryKind::Directory => self.target.directory(path, entry).map(|()| false),
            _ => self.target.special(path, entry),
        }
        .map_err(|error| self.failed(path, error))
    }

    fn file<R: BufRead, J: RecordFiles>(
        &mut self,
        path: &[u8],
        entry: &Entry,
        reader: &mut Reader<'_, R, J>,
    ) -> Result<bool> {
        let EntryKind::File { stored, sparse } = &entry.kind else {
            return Ok(false);
        };
        self.bytes = self.bytes.saturating_add(*stored);
        if self.bytes > self.limits.layer_bytes {
            return Err(Error::too_large(
                format!("the unpacked size of {}", self.what),
                format!("{} bytes", self.limits.layer_bytes),
            ));
        }
        self.spending.spend(*stored)?;
        let size = sparse.as_ref().map_or(*stored, |sparse| sparse.size);
        let overwrote = self
            .target
            .begin(path, entry, size)
            .map_err(|error| self.failed(path, error))?;
        let whole = [Segment {
            offset: 0,
            length: *stored,
        }];
        let what = self.what;
        let segments = sparse
            .as_ref()
            .map_or(&whole[..], |sparse| &sparse.segments);
        for segment in segments.iter().filter(|segment| segment.length > 0) {
            let mut at = segment.offset;
            reader.content(segment.length, |piece| {
                self.room
                    .content(piece.len() as u64, self.target.disk())
                    .and_then(|_| self.target.content(piece, at))
                    .map_err(|error| failed_io(what, path, error))?;
                at += piece.len() as u64;
                Ok(())
            })?;
            reader
                .record_mut()
                .content(path, segment.offset, segment.length)
                .map_err(|error| Error::io("recording a layer's headers", error))?;
        }
        self.target
            .end(entry, *stored)
            .map_err(|error| self.failed(path, error))?;
        Ok(overwrote)
    }

    fn root_entry(&mut self, entry: &Entry) -> Result<()> {
        if entry.kind != EntryKind::Directory {
            return Err(self.refuse(b"/", "the layer's root is not a directory"));
        }
        let set = self.target.root(entry);
        set.map_err(|error| self.failed(b"/", error))
    }

    fn hard_link(&mut self, path: &[u8], to: &[u8]) -> Result<bool> {
        let to = clean(to).map_err(|reason| self.refuse(path, reason))?;
        if to.is_empty() {
            return Err(self.refuse(path, "it is a hard link to the root directory"));
        }
        match self.target.hard_link(path, &to) {
            Ok(Linked::Done { overwrote }) => Ok(overwrote),
            Ok(Linked::Missing) => {
                let to = String::from_utf8_lossy(&to).into_owned();
                let problem = format!("it is a hard link to {to:?}, which is not in the layer");
                Err(self.refuse(path, problem))
            }
            Ok(Linked::Directory) => Err(self.refuse(path, "it is a hard link to a directory")),
            Err(error) => Err(self.failed(path, error)),
        }
    }

    /// Handles a whiteout, which hides only lower layers: the content of this layer stays.
    fn whiteout(&mut self, path: &[u8], name: &[u8]) -> Result<()> {
        let parent = &path[..path.len() - name.len()];
        if name == OPAQUE {
            let parent = parent.strip_suffix(b"/").unwrap_or(parent);
            let made = self.target.opaque(parent);
            return made.map_err(|error| self.failed(path, error));
        }
        if name.starts_with(WHITEOUT_META) {
            // Metadata of aufs in old images.
            return Ok(());
        }
        let hidden = &name[WHITEOUT.len()..];
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(self.refuse(path, "it is a whiteout without a file name"));
        }
        let made = self.target.whiteout(&[parent, hidden].concat());
        made.map_err(|error| self.failed(path, error))
    }

    fn finish(self) -> Result<(Unpacked, T::Rest)> {
        let what = self.what;
        let (mut done, rest) = self
            .target
            .finish()
            .map_err(|(path, problem)| failed(what, &path, problem))?;
        done.bytes = self.bytes;
        Ok((done, rest))
    }

    fn failed(&self, path: &[u8], problem: Problem) -> Error {
        failed(self.what, path, problem)
    }

    fn failed_io(&self, path: &[u8], error: io::Error) -> Error {
        failed_io(self.what, path, error)
    }

    fn refuse(&self, path: &[u8], reason: impl Into<String>) -> Error {
        refuse(self.what, path, reason)
    }
}

fn failed(what: &str, path: &[u8], problem: Problem) -> Error {
    let error = match problem {
        Problem::Kernel(error) => error,
        Problem::Disk(error) => return failed_io(what, path, error),
        Problem::TooMuch(limit) => {
            return Error::too_large(format!("the content of {what}"), limit);
        }
    };
    let reason = match error {
        Errno::NAMETOOLONG => "its name is too long",
        Errno::LOOP => "its path has too many symbolic links",
        Errno::NOTDIR => "its path goes through something that is not a directory",
        Errno::EXIST => "another file has the same path",
        Errno::TOOBIG | Errno::RANGE | Errno::INVAL => "its attributes are not valid",
        Errno::FBIG => "it is larger than the file system allows",
        _ => return failed_io(what, path, error.into()),
    };
    refuse(what, path, reason)
}

fn failed_io(what: &str, path: &[u8], error: io::Error) -> Error {
    Error::io(format!("unpacking {:?} of {what}", shown(path)), error)
}

fn refuse(what: &str, path: &[u8], reason: impl Into<String>) -> Error {
    Error::invalid(format!("file {:?} in {what}", shown(path)), reason.into())
}

/// Returns a name for messages: at most 200 characters, with invalid bytes replaced.
fn shown(path: &[u8]) -> String {
    let mut text: String = String::from_utf8_lossy(path).chars().take(200).collect();
    if path.len() > 200 {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    use super::*;

    fn archive(content: &[u8]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, "file", content).unwrap();
        builder.into_inner().unwrap()
    }

    fn unpack(archive: &[u8], target: &Path, room: Room) -> Result<(Unpacked, (), ())> {
        let input = io::BufReader::with_capacity(256 << 10, archive);
        let target = super::super::tree::Tree::open(target).unwrap();
        extract_to(
            "the layer",
            input,
            (),
            target,
            &Limits::default(),
            room,
            &(),
        )
    }

    #[test]
    fn zeros_in_a_layer_take_no_room_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let mut content = vec![0; 8 << 20];
        content[3 << 20] = 7;
        unpack(&archive(&content), dir.path(), Room::default()).unwrap();
        let path = dir.path().join("file");
        let look = path.metadata().unwrap();
        assert!(look.blocks() * 512 <= 1 << 20, "{} blocks", look.blocks());
        assert!(std::fs::read(path).unwrap() == content);
    }

    #[test]
    fn a_layer_leaves_the_disk_its_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let layer = archive(&vec![1; 20 << 20]);
        let full = unpack(&layer, dir.path(), Room::leaving(|_| u64::MAX)).unwrap_err();
        assert!(matches!(full, Error::DiskFull { .. }), "{full}");
        let took = dir.path().join("file").metadata().unwrap().blocks() * 512;
        assert!(took <= 9 << 20, "{took} bytes");
    }
}
