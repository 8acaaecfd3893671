//! Puts the entries of a layer's archive on disk, whiteouts translated for overlayfs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, linkat, makedev, mkdirat, mknodat, openat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::attributes;
use super::root::{LayerRoot, clean};
use crate::config::Limits;
use crate::tar::{Bounds, Entry, EntryKind, Mtime, Reader, Record, Segment};
use crate::{Digest, Error, Result};
use orlop_disk::{Room, remove_tree_at};

/// Names that start so are instructions (OCI image layer specification, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
const WHITEOUT_META: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// So many zeros are not written, but left out. Fewer would save nothing.
const HOLE: usize = 64 << 10;

/// What an unpacked layer amounts to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// The archive's digest, once all of it was read.
    pub(crate) diff_id: Option<Digest>,
    /// Bytes of the archive.
    pub(crate) archive_bytes: u64,
    /// Bytes of file content.
    pub(crate) bytes: u64,
    /// Bytes that the files take on disk, in whole blocks.
    pub(crate) disk_bytes: u64,
    /// Files, directories and all else.
    pub(crate) inodes: u64,
    /// Directories below the root that the archive uses without describing them: what they
    /// look like is up to the layers below.
    pub(crate) implicit: Vec<Vec<u8>>,
}

/// Is told where on disk the content of each file went.
pub(crate) trait RecordFiles: Record {
    /// `length` bytes of the archive stand at `offset` of the file at `path` (clean).
    fn content(&mut self, path: &[u8], offset: u64, length: u64) -> io::Result<()>;
    /// A file that content was recorded for is gone: the archive can't be put together again.
    fn overwritten(&mut self);
}

impl RecordFiles for () {
    fn content(&mut self, _: &[u8], _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn overwritten(&mut self) {}
}

/// Counts the bytes of files before they are written.
pub(crate) trait Spending: Sync {
    /// So many more, or why not.
    fn spend(&self, bytes: u64) -> Result<()>;
}

impl Spending for () {
    fn spend(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Unpacks the archive `input` into the empty directory `target`.
pub(super) fn extract<R: BufRead, J: RecordFiles>(
    what: &str,
    input: R,
    record: J,
    target: &Path,
    limits: &Limits,
    spending: &dyn Spending,
) -> Result<(Unpacked, J)> {
    let room = Room::default();
    extract_into(what, input, record, target, limits, room, spending)
}

fn extract_into<R: BufRead, J: RecordFiles>(
    what: &str,
    input: R,
    record: J,
    target: &Path,
    limits: &Limits,
    room: Room,
    spending: &dyn Spending,
) -> Result<(Unpacked, J)> {
    let root = LayerRoot::open(target).map_err(|error| Error::at("opening", target, error))?;
    let bounds = Bounds {
        header_bytes: limits.header_bytes,
        overhead_bytes: limits.overhead_bytes,
    };
    let mut reader = Reader::new(what, input, record, bounds);
    let mut extractor = Extractor {
        what,
        root,
        limits,
        entries: 0,
        remembered: 0,
        times: BTreeMap::new(),
        room,
        spending,
        done: Unpacked::default(),
    };
    // The root directory counts like any other.
    extractor.account(0);
    while let Some(entry) = reader.next()? {
        extractor.entry(entry, &mut reader)?;
    }
    let record = reader.finish()?;
    Ok((extractor.finish()?, record))
}

/// Writes what is not there yet: zeros are, in a file that is as long as it will be.
fn write_but_holes(file: &File, piece: &[u8], at: u64) -> io::Result<()> {
    let mut at = at;
    for part in piece.chunks(HOLE) {
        if part.len() < HOLE || part.iter().any(|byte| *byte != 0) {
            file.write_all_at(part, at)?;
        }
        at += part.len() as u64;
    }
    Ok(())
}

struct Extractor<'a> {
    what: &'a str,
    root: LayerRoot,
    limits: &'a Limits,
    entries: u64,
    /// Bytes held for directories.
    remembered: u64,
    /// Directory times, set at the end.
    times: BTreeMap<Vec<u8>, Mtime>,
    room: Room,
    spending: &'a dyn Spending,
    done: Unpacked,
}

impl Extractor<'_> {
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
        let entered = self.room.entry(self.root.fd());
        entered.map_err(|error| self.failed_io(&entry.path, error))?;
        let path = clean(&entry.path).map_err(|reason| self.refuse(&entry.path, reason))?;
        if path.is_empty() {
            return self.root_entry(&entry);
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(&path);
        if name.starts_with(WHITEOUT) {
            return self.whiteout(&path, name);
        }
        match &entry.kind {
            EntryKind::File { .. } => self.file(&path, &entry, reader),
            EntryKind::Directory => self.directory(&path, &entry),
            EntryKind::HardLink(target) => self.hard_link(&path, target, reader),
            EntryKind::Symlink(target) => {
                if target.is_empty() || target.contains(&0) {
                    return Err(self.refuse(&path, "it is a symbolic link to nothing"));
                }
                self.special(&path, &entry, reader, |dir, name| {
                    symlinkat(&target[..], dir, name)
                })
            }
            EntryKind::Fifo => self.node(&path, &entry, reader, FileType::Fifo, 0, 0),
            EntryKind::CharDevice { major, minor } => self.node(
                &path,
                &entry,
                reader,
                FileType::CharacterDevice,
                *major,
                *minor,
            ),
            EntryKind::BlockDevice { major, minor } => {
                self.node(&path, &entry, reader, FileType::BlockDevice, *major, *minor)
            }
        }
    }

    fn file<R: BufRead, J: RecordFiles>(
        &mut self,
        path: &[u8],
        entry: &Entry,
        reader: &mut Reader<'_, R, J>,
    ) -> Result<()> {
        let EntryKind::File { stored, sparse } = &entry.kind else {
            return Ok(());
        };
        self.done.bytes = self.done.bytes.saturating_add(*stored);
        if self.done.bytes > self.limits.layer_bytes {
            return Err(Error::too_large(
                format!("the unpacked size of {}", self.what),
                format!("{} bytes", self.limits.layer_bytes),
            ));
        }
        self.spending.spend(*stored)?;
        let (dir, name) = self.place(path)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = || openat(&dir, name, flags, Mode::RUSR | Mode::WUSR);
        let file = match create() {
            Err(Errno::EXIST) => {
                self.replace(path, &dir, name, reader)?;
                create()
            }
            other => other,
        };
        let file = File::from(file.map_err(|error| self.failed(path, error))?);
        let whole = [Segment {
            offset: 0,
            length: *stored,
        }];
        let segments = match sparse {
            None => {
                if *stored >= HOLE as u64 {
                    file.set_len(*stored)
                        .map_err(|error| self.failed_io(path, error))?;
                }
                &whole[..]
            }
            Some(sparse) => {
                file.set_len(sparse.size)
                    .map_err(|error| self.failed_io(path, error))?;
                &sparse.segments
            }
        };
        for segment in segments.iter().filter(|segment| segment.length > 0) {
            let mut at = segment.offset;
            let mut room = std::mem::take(&mut self.room);
            reader.content(segment.length, |piece| {
                room.content(piece.len() as u64, &file)
                    .and_then(|_| write_but_holes(&file, piece, at))
                    .map_err(|error| self.failed_io(path, error))?;
                at += piece.len() as u64;
                Ok(())
            })?;
            self.room = room;
            reader
                .record_mut()
                .content(path, segment.offset, segment.length)
                .map_err(|error| Error::io("recording a layer's headers", error))?;
        }
        attributes::set_on_file(&file, entry).map_err(|error| self.failed(path, error))?;
        self.account(*stored);
        Ok(())
    }

    fn directory(&mut self, path: &[u8], entry: &Entry) -> Result<()> {
        let (dir, name) = self.place(path)?;
        match mkdirat(&dir, name, Mode::RWXU) {
            Ok(()) => self.account(0),
            Err(Errno::EXIST) => {
                let found = self.look(path, &dir, name)?;
                if found != FileType::Directory {
                    let hid_below = found == FileType::CharacterDevice;
                    self.root.forget_paths();
                    unlinkat(&dir, name, AtFlags::empty())
                        .and_then(|()| mkdirat(&dir, name, Mode::RWXU))
                        .map_err(|error| self.failed(path, error))?;
                    if hid_below {
                        // It was a whiteout: what lower layers have there must stay hidden.
                        attributes::set_opaque(&dir, name)
                            .map_err(|error| self.failed(path, error))?;
                    }
                }
            }
            Err(error) => return Err(self.failed(path, error)),
        }
        attributes::set_at(&dir, name, entry).map_err(|error| self.failed(path, error))?;
        self.root.explicit(path);
        self.remember(1, path.len() as u64)?;
        self.times.insert(path.to_vec(), entry.mtime);
        Ok(())
    }

    fn root_entry(&mut self, entry: &Entry) -> Result<()> {
        if entry.kind != EntryKind::Directory {
            return Err(self.refuse(b"/", "the layer's root is not a directory"));
        }
        attributes::set_at(self.root.fd(), b".", entry)
            .map_err(|error| self.failed(b"/", error))?;
        self.times.insert(Vec::new(), entry.mtime);
        Ok(())
    }

    fn hard_link<R: BufRead, J: RecordFiles>(
        &mut self,
        path: &[u8],
        target: &[u8],
        reader: &mut Reader<'_, R, J>,
    ) -> Result<()> {
        let target = clean(target).map_err(|reason| self.refuse(path, reason))?;
        if target.is_empty() {
            return Err(self.refuse(path, "it is a hard link to the root directory"));
        }
        let missing = |this: &Self| {
            let target = String::from_utf8_lossy(&target).into_owned();
            this.refuse(
                path,
                format!("it is a hard link to {target:?}, which the layer doesn't have"),
            )
        };
        let (from_dir, from_name) = match self.root.existing_place(&target) {
            Ok(place) => place,
            Err(Errno::NOENT) => return Err(missing(self)),
            Err(error) => return Err(self.failed(path, error)),
        };
        let (dir, name) = self.place(path)?;
        let link = || linkat(&from_dir, from_name, &dir, name, AtFlags::empty());
        let linked = match link() {
            Err(Errno::EXIST) => {
                // A link to itself must not remove what it points to.
                if same_file(&from_dir, from_name, &dir, name) {
                    return Ok(());
                }
                self.replace(path, &dir, name, reader)?;
                link()
            }
            other => other,
        };
        match linked {
            Ok(()) => Ok(()),
            Err(Errno::NOENT) => Err(missing(self)),
            Err(Errno::PERM) => Err(self.refuse(path, "it is a hard link to a directory")),
            Err(error) => Err(self.failed(path, error)),
        }
    }

    fn node<R: BufRead, J: RecordFiles>(
        &mut self,
        path: &[u8],
        entry: &Entry,
        reader: &mut Reader<'_, R, J>,
        kind: FileType,
        major: u32,
        minor: u32,
    ) -> Result<()> {
        let mode = Mode::RUSR | Mode::WUSR;
        self.special(path, entry, reader, |dir, name| {
            mknodat(dir, name, kind, mode, makedev(major, minor))
        })
    }

    fn special<R: BufRead, J: RecordFiles>(
        &mut self,
        path: &[u8],
        entry: &Entry,
        reader: &mut Reader<'_, R, J>,
        make: impl Fn(&OwnedFd, &[u8]) -> rustix::io::Result<()>,
    ) -> Result<()> {
        let (dir, name) = self.place(path)?;
        match make(&dir, name) {
            Err(Errno::EXIST) => {
                self.replace(path, &dir, name, reader)?;
                make(&dir, name)
            }
            other => other,
        }
        .and_then(|()| attributes::set_at(&*dir, name, entry))
        .map_err(|error| self.failed(path, error))?;
        self.account(0);
        Ok(())
    }

    /// Whiteouts speak of lower layers only: what this layer itself has there stays.
    fn whiteout(&mut self, path: &[u8], name: &[u8]) -> Result<()> {
        let parent = &path[..path.len() - name.len()];
        if name == OPAQUE {
            let (dir, _) = self.place(path)?;
            return attributes::set_opaque(&*dir, b".").map_err(|error| self.failed(path, error));
        }
        if name.starts_with(WHITEOUT_META) {
            // Bookkeeping of aufs that found its way into old images.
            return Ok(());
        }
        let hidden = &name[WHITEOUT.len()..];
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(self.refuse(path, "it is a whiteout of nothing"));
        }
        let hidden = [parent, hidden].concat();
        let (dir, name) = self.place(&hidden)?;
        match mknodat(
            &dir,
            name,
            FileType::CharacterDevice,
            Mode::empty(),
            makedev(0, 0),
        ) {
            Ok(()) => {
                self.account(0);
                Ok(())
            }
            Err(Errno::EXIST) if self.look(&hidden, &dir, name)? == FileType::Directory => {
                attributes::set_opaque(&*dir, name).map_err(|error| self.failed(path, error))
            }
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(self.failed(path, error)),
        }
    }

    /// Removes what stands where a later entry of the archive goes.
    fn replace<R: BufRead, J: RecordFiles>(
        &mut self,
        path: &[u8],
        dir: &OwnedFd,
        name: &[u8],
        reader: &mut Reader<'_, R, J>,
    ) -> Result<()> {
        match self.look(path, dir, name)? {
            // A link may have been part of the way to a file.
            FileType::RegularFile | FileType::Symlink => reader.record_mut().overwritten(),
            FileType::Directory => {
                reader.record_mut().overwritten();
                let below = [path, b"/"].concat();
                self.times
                    .retain(|known, _| known != path && !known.starts_with(&below));
            }
            _ => {}
        }
        self.root.forget_paths();
        remove_tree_at(dir, OsStr::from_bytes(name)).map_err(|error| self.failed(path, error))
    }

    fn look(&self, path: &[u8], dir: &OwnedFd, name: &[u8]) -> Result<FileType> {
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| self.failed(path, error))?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    fn place<'p>(&mut self, path: &'p [u8]) -> Result<(std::rc::Rc<OwnedFd>, &'p [u8])> {
        let (before, bytes_before) = self.root.implicit_size();
        let place = self
            .root
            .place(path)
            .map_err(|error| self.failed(path, error))?;
        let (after, bytes_after) = self.root.implicit_size();
        let made = after.saturating_sub(before);
        for _ in 0..made {
            self.account(0);
        }
        if made > 0 {
            self.remember(made as u64, bytes_after - bytes_before)?;
        }
        Ok(place)
    }

    /// Counts an inode and the blocks of its content.
    fn account(&mut self, content: u64) {
        const BLOCK: u64 = 4096;
        self.done.inodes += 1;
        self.done.disk_bytes += content.div_ceil(BLOCK) * BLOCK;
    }

    /// Counts the memory of so many directories whose names have so many bytes.
    fn remember(&mut self, directories: u64, bytes: u64) -> Result<()> {
        self.remembered += bytes + directories * 96;
        if self.remembered > self.limits.bookkeeping_bytes {
            return Err(Error::too_large(
                format!("the directory list of {}", self.what),
                format!("{} bytes of memory", self.limits.bookkeeping_bytes),
            ));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Unpacked> {
        for (path, mtime) in std::mem::take(&mut self.times) {
            let set = if path.is_empty() {
                attributes::set_mtime(self.root.fd(), b".", mtime)
            } else {
                self.root
                    .existing_place(&path)
                    .and_then(|(dir, name)| attributes::set_mtime(&*dir, name, mtime))
            };
            set.map_err(|error| self.failed(&path, error))?;
        }
        self.done.implicit = self.root.into_implicit().into_iter().collect();
        Ok(self.done)
    }

    fn failed(&self, path: &[u8], error: Errno) -> Error {
        let reason = match error {
            Errno::NAMETOOLONG => "its name is too long",
            Errno::LOOP => "its path goes through too many links",
            Errno::NOTDIR => "its path goes through something that is not a directory",
            Errno::EXIST => "something else is in its place",
            Errno::TOOBIG | Errno::RANGE | Errno::INVAL => "its attributes are not valid",
            Errno::FBIG => "it is larger than the file system allows",
            _ => return self.failed_io(path, error.into()),
        };
        self.refuse(path, reason)
    }

    fn failed_io(&self, path: &[u8], error: io::Error) -> Error {
        Error::io(
            format!("unpacking {:?} of {}", shown(path), self.what),
            error,
        )
    }

    fn refuse(&self, path: &[u8], reason: impl Into<String>) -> Error {
        Error::invalid(
            format!("file {:?} in {}", shown(path), self.what),
            reason.into(),
        )
    }
}

fn same_file(a: impl AsFd, a_name: &[u8], b: impl AsFd, b_name: &[u8]) -> bool {
    let look = |dir: rustix::fd::BorrowedFd<'_>, name| statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    match (look(a.as_fd(), a_name), look(b.as_fd(), b_name)) {
        (Ok(a), Ok(b)) => a.st_dev == b.st_dev && a.st_ino == b.st_ino,
        _ => false,
    }
}

/// A name for a message: at most 200 characters, whatever its bytes.
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

    use super::*;

    fn archive(content: &[u8]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, "file", content).unwrap();
        builder.into_inner().unwrap()
    }

    fn unpack(archive: &[u8], target: &Path, room: Room) -> Result<(Unpacked, ())> {
        let input = io::BufReader::with_capacity(256 << 10, archive);
        extract_into(
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
