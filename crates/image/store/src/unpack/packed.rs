//! Writes a layer into one EROFS image file while the layer is downloaded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use orlop_erofs::{Attributes, Image, Kind, Options, Pending, Timestamp, Xattrs};
use rustix::io::Errno;

use super::root::{MAX_LINKS, MAX_STEPS, split};
use super::target::{Linked, Problem, Target};
use super::{Unpacked, attributes};
use crate::limits::Limits;
use crate::tar::{Entry, EntryKind};

/// Maximum length of paths on Linux.
const MAX_PATH: usize = 4095;
const MAX_NAME: usize = 255;

/// Memory per remembered directory, in addition to its name.
const REMEMBERED: u64 = 96;

/// Number of cached directory paths. Consecutive entries are mostly in the same directory.
const CACHE: usize = 64;

/// Extended attribute of directories that hide their content in lower layers.
pub(crate) const OPAQUE: &[u8] = b"trusted.overlay.opaque";

type Result<T, E = Problem> = std::result::Result<T, E>;

/// A path from the root that contains only directories.
type Names = Vec<Box<[u8]>>;

/// An image that a layer is packed into.
pub(super) struct Packed {
    image: Image,
    /// The image file again, to check its file system.
    file: File,
    /// The file whose content is being written.
    pending: Option<Pending>,
    /// Resolved directories by their original paths.
    cache: BTreeMap<Vec<u8>, Names>,
    /// Directories that the archive uses without describing them.
    implicit: BTreeSet<Names>,
    /// Bytes of memory for directories.
    held: u64,
}

impl Packed {
    pub(super) fn create(file: File, limits: &Limits) -> io::Result<Self> {
        Ok(Self {
            file: file.try_clone()?,
            image: Image::create(file, options(limits)).map_err(io::Error::other)?,
            pending: None,
            cache: BTreeMap::new(),
            implicit: BTreeSet::new(),
            held: 0,
        })
    }

    /// Returns the resolved path: the directory that holds `path`, created if `make` is set, and the last component.
    fn place(&mut self, path: &[u8], make: bool) -> Result<Names> {
        let (parent, name) = split(path);
        if path.len() > MAX_PATH || name.len() > MAX_NAME {
            return Err(Errno::NAMETOOLONG.into());
        }
        let mut names = self.directory_at(parent, make)?;
        names.push(name.into());
        Ok(names)
    }

    /// Resolves a directory, and creates missing ones on the way if `make` is set. Follows symlinks. With
    /// `make`, if a link's target does not exist in this layer, a directory is created at the target's path.
    fn directory_at(&mut self, path: &[u8], make: bool) -> Result<Names> {
        if let Some(known) = self.cache.get(path) {
            return Ok(known.clone());
        }
        let mut names = Names::new();
        // The next component is last.
        let mut left: Vec<Box<[u8]>> = components(path).rev().map(Into::into).collect();
        let (mut links, mut steps) = (0, 0);
        while let Some(name) = left.pop() {
            steps += 1;
            if steps > MAX_STEPS {
                return Err(Errno::LOOP.into());
            }
            if &*name == b".." {
                names.pop();
                continue;
            }
            names.push(name);
            match self.image.kind_at(&slices(&names)) {
                Some(Kind::Directory) => {}
                Some(Kind::Symlink) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    let target = self.image.target_at(&slices(&names)).unwrap_or_default();
                    if target.starts_with(b"/") {
                        names.clear();
                    } else {
                        names.pop();
                    }
                    left.extend(components(target).rev().map(Box::from));
                }
                Some(_) => return Err(Errno::NOTDIR.into()),
                None if make => self.make_implicit(&names)?,
                None => return Err(Errno::NOENT.into()),
            }
        }
        if self.cache.len() >= CACHE {
            self.cache.clear();
        }
        self.cache.insert(path.to_vec(), names.clone());
        Ok(names)
    }

    fn make_implicit(&mut self, names: &Names) -> Result<()> {
        if names.last().is_some_and(|name| name.len() > MAX_NAME) {
            return Err(Errno::NAMETOOLONG.into());
        }
        self.image.directory(&slices(names), plain())?;
        let bytes = names.iter().map(|name| name.len() as u64 + 32);
        self.held += REMEMBERED + bytes.sum::<u64>();
        self.implicit.insert(names.clone());
        Ok(())
    }

    /// Prepares the replacement of an entry. Returns whether that entry was recorded.
    fn clear(&mut self, names: &Names) -> bool {
        let found = self.image.kind_at(&slices(names));
        if matches!(found, Some(Kind::Directory | Kind::Symlink)) {
            // The entry may be part of a cached path.
            self.cache.clear();
        }
        if found == Some(Kind::Directory) {
            // The replacement is described by the archive.
            self.implicit.retain(|made| !made.starts_with(names));
        }
        matches!(found, Some(Kind::File | Kind::Symlink | Kind::Directory))
    }

    /// Adds the opaque attribute to a directory.
    fn mark_opaque(&mut self, names: &Names) -> Result<()> {
        let path = slices(names);
        let mut attributes = self.image.attributes(&path).cloned().unwrap_or_default();
        attributes.xattrs.insert(OPAQUE.to_vec(), b"y".to_vec());
        Ok(self.image.set_attributes(&path, attributes)?)
    }

    /// Sets the attributes of a directory, and keeps its other extended attributes.
    fn dress(&mut self, names: &Names, entry: &Entry) -> Result<()> {
        let path = slices(names);
        let mut look = look(entry);
        if let Some(before) = self.image.attributes(&path) {
            for (name, value) in &before.xattrs {
                let entry = look.xattrs.entry(name.clone());
                entry.or_insert_with(|| value.clone());
            }
        }
        Ok(self.image.directory(&path, look)?)
    }
}

impl Target for Packed {
    type Rest = Image;

    fn disk(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn root(&mut self, entry: &Entry) -> Result<()> {
        self.dress(&Names::new(), entry)
    }

    fn directory(&mut self, path: &[u8], entry: &Entry) -> Result<()> {
        let names = self.place(path, true)?;
        let found = self.image.kind_at(&slices(&names));
        if found.is_some_and(|found| found != Kind::Directory) {
            self.clear(&names);
            self.image.directory(&slices(&names), plain())?;
            if found == Some(Kind::Character) {
                // The directory replaces a whiteout, so lower layers must stay hidden.
                self.mark_opaque(&names)?;
            }
        }
        self.dress(&names, entry)?;
        self.implicit.remove(&names);
        self.held += REMEMBERED + path.len() as u64;
        Ok(())
    }

    fn begin(&mut self, path: &[u8], entry: &Entry, size: u64) -> Result<bool> {
        let names = self.place(path, true)?;
        let overwrote = self.clear(&names);
        self.pending = Some(self.image.begin(&slices(&names), look(entry), size)?);
        Ok(overwrote)
    }

    fn content(&mut self, piece: &[u8], at: u64) -> io::Result<()> {
        let pending = self.pending.as_mut().ok_or(Errno::BADF)?;
        let written = self.image.write(pending, at, piece);
        written.map_err(|error| match error {
            orlop_erofs::Error::Write(error) => error,
            error => io::Error::other(error),
        })
    }

    fn end(&mut self, _: &Entry, _: u64) -> Result<()> {
        let pending = self.pending.take().ok_or(Errno::BADF)?;
        Ok(self.image.end(pending)?)
    }

    fn special(&mut self, path: &[u8], entry: &Entry) -> Result<bool> {
        let names = self.place(path, true)?;
        let overwrote = self.clear(&names);
        let (path, mut look) = (slices(&names), look(entry));
        // Links and special files cannot have `user.` attributes.
        look.xattrs.retain(|name, _| !name.starts_with(b"user."));
        match &entry.kind {
            EntryKind::Symlink(target) => {
                look.mode = 0o777;
                self.image.symlink(&path, &look, target)?;
            }
            EntryKind::Fifo => self.image.fifo(&path, &look)?,
            EntryKind::CharDevice { major, minor } => {
                let numbers = (*major, *minor);
                self.image.device(&path, &look, Kind::Character, numbers)?;
            }
            EntryKind::BlockDevice { major, minor } => {
                let numbers = (*major, *minor);
                self.image.device(&path, &look, Kind::Block, numbers)?;
            }
            _ => return Err(Errno::INVAL.into()),
        }
        Ok(overwrote)
    }

    fn hard_link(&mut self, path: &[u8], to: &[u8]) -> Result<Linked> {
        let from = match self.place(to, false) {
            Err(Problem::Kernel(Errno::NOENT)) => return Ok(Linked::Missing),
            found => found?,
        };
        let names = self.place(path, true)?;
        match self.image.kind_at(&slices(&from)) {
            None => return Ok(Linked::Missing),
            Some(Kind::Directory) if from != names => return Ok(Linked::Directory),
            Some(_) => {}
        }
        // A link to itself must not remove its target.
        if self.image.is_same(&slices(&from), &slices(&names)) {
            return Ok(Linked::Done { overwrote: false });
        }
        let overwrote = self.clear(&names);
        if from.starts_with(&names) {
            // The link replaces a directory that contained its target.
            return Ok(Linked::Missing);
        }
        self.image.link(&slices(&from), &slices(&names))?;
        Ok(Linked::Done { overwrote })
    }

    fn whiteout(&mut self, path: &[u8]) -> Result<()> {
        let names = self.place(path, true)?;
        match self.image.kind_at(&slices(&names)) {
            None => {
                let path = slices(&names);
                let nobody = Attributes::default();
                Ok(self.image.device(&path, &nobody, Kind::Character, (0, 0))?)
            }
            Some(Kind::Directory) => self.mark_opaque(&names),
            Some(_) => Ok(()),
        }
    }

    fn opaque(&mut self, path: &[u8]) -> Result<()> {
        let names = self.directory_at(path, true)?;
        self.mark_opaque(&names)
    }

    fn finish(self) -> Result<(Unpacked, Image), (Vec<u8>, Problem)> {
        let implicit = self.implicit.iter().map(|names| names.join(&b'/'));
        let unpacked = Unpacked {
            implicit: implicit.collect(),
            inodes: 1,
            ..Unpacked::default()
        };
        Ok((unpacked, self.image))
    }
}

/// Returns the options for an image of a layer.
pub(crate) fn options(limits: &Limits) -> Options {
    let most = Options::default().max_entries;
    Options {
        max_entries: u32::try_from(limits.layer_entries).map_or(most, |it| it.min(most)),
        ..Options::default()
    }
}

/// Returns the attributes of newly created directories.
fn plain() -> Attributes {
    Attributes {
        mode: 0o755,
        ..Attributes::default()
    }
}

fn look(entry: &Entry) -> Attributes {
    let xattrs = attributes::wanted(&entry.xattrs)
        .filter(|(name, _)| orlop_erofs::is_xattr_name(name))
        .map(|(name, value)| (name.to_vec(), value.to_vec()));
    Attributes {
        mode: (entry.mode & 0o7777) as u16,
        uid: entry.uid,
        gid: entry.gid,
        mtime: Timestamp {
            seconds: entry.mtime.seconds,
            nanoseconds: entry.mtime.nanoseconds,
        },
        xattrs: xattrs.collect::<Xattrs>(),
    }
}

fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."))
}

fn slices(names: &Names) -> Vec<&[u8]> {
    names.iter().map(|name| &**name).collect()
}

impl From<orlop_erofs::Error> for Problem {
    fn from(error: orlop_erofs::Error) -> Self {
        use orlop_erofs::Error;
        match error {
            Error::Write(error) => Self::Disk(error),
            Error::TooMany(limit) => Self::TooMuch(limit.to_string()),
            Error::ImageSize | Error::FileSize(_) => Errno::FBIG.into(),
            Error::NotADirectory(_) => Errno::NOTDIR.into(),
            Error::NotFound(_) => Errno::NOENT.into(),
            Error::Target(_) => Errno::NAMETOOLONG.into(),
            Error::XattrName(_) | Error::XattrSize(_) | Error::Device(..) => Errno::INVAL.into(),
            other => Self::Disk(io::Error::other(other)),
        }
    }
}
