//! Writes a layer into a directory.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, linkat, makedev, mkdirat, mknodat, openat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::Unpacked;
use super::attributes;
use super::root::LayerRoot;
use super::target::{Linked, Problem, Target};
use crate::tar::{Entry, EntryKind, Mtime};
use orlop_fs::remove_tree_at;

/// Runs of zeros of this length become holes. Shorter holes would save nothing.
const HOLE: usize = 64 << 10;

/// Memory per remembered directory, in addition to its name.
const REMEMBERED: u64 = 96;

type Result<T, E = Problem> = std::result::Result<T, E>;

/// The target directory, which was empty.
pub(super) struct Tree {
    root: LayerRoot,
    /// Modification times of directories, set at the end.
    times: BTreeMap<Vec<u8>, Mtime>,
    /// Memory for these in bytes.
    held: u64,
    /// The file whose content is being written.
    file: Option<File>,
    done: Unpacked,
}

impl Tree {
    pub(super) fn open(path: &Path) -> crate::Result<Self> {
        let root =
            LayerRoot::open(path).map_err(|error| crate::Error::at("opening", path, error))?;
        let mut tree = Self {
            root,
            times: BTreeMap::new(),
            held: 0,
            file: None,
            done: Unpacked::default(),
        };
        // The root directory counts as an inode too.
        tree.account(0);
        Ok(tree)
    }

    /// Returns the directory that holds `path`, and the name in it.
    fn place<'p>(&mut self, path: &'p [u8]) -> Result<(Rc<OwnedFd>, &'p [u8])> {
        let (before, bytes_before) = self.root.implicit_size();
        let place = self.root.place(path)?;
        let (after, bytes_after) = self.root.implicit_size();
        for _ in before..after {
            self.account(0);
            self.held += REMEMBERED;
        }
        self.held += bytes_after - bytes_before;
        Ok(place)
    }

    /// Creates an entry, and replaces an existing one. Returns whether it overwrote a recorded entry.
    fn make<T>(
        &mut self,
        dir: &OwnedFd,
        path: &[u8],
        name: &[u8],
        make: impl Fn(&OwnedFd, &[u8]) -> Result<T, Errno>,
    ) -> Result<(T, bool), Errno> {
        match make(dir, name) {
            Err(Errno::EXIST) => {
                let overwrote = self.clear(dir, path, name)?;
                Ok((make(dir, name)?, overwrote))
            }
            made => Ok((made?, false)),
        }
    }

    /// Removes the entry that a later entry of the archive replaces. Returns whether it was recorded.
    fn clear(&mut self, dir: &OwnedFd, path: &[u8], name: &[u8]) -> Result<bool, Errno> {
        let found = look(dir, name)?;
        if found == FileType::Directory {
            let below = [path, b"/"].concat();
            self.times
                .retain(|known, _| known != path && !known.starts_with(&below));
        }
        self.root.forget_paths();
        remove_tree_at(dir, OsStr::from_bytes(name))?;
        // A link may be part of the recorded path of a file.
        Ok(matches!(
            found,
            FileType::RegularFile | FileType::Symlink | FileType::Directory
        ))
    }

    /// Counts an inode and the blocks of its content.
    fn account(&mut self, content: u64) {
        const BLOCK: u64 = 4096;
        self.done.inodes += 1;
        self.done.disk_bytes += content.div_ceil(BLOCK) * BLOCK;
    }
}

impl Target for Tree {
    type Rest = ();

    fn disk(&self) -> BorrowedFd<'_> {
        let root = self.root.fd();
        self.file.as_ref().map_or(root.as_fd(), AsFd::as_fd)
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn root(&mut self, entry: &Entry) -> Result<()> {
        attributes::set_at(self.root.fd(), b".", entry)?;
        self.times.insert(Vec::new(), entry.mtime);
        Ok(())
    }

    fn directory(&mut self, path: &[u8], entry: &Entry) -> Result<()> {
        let (dir, name) = self.place(path)?;
        match mkdirat(&dir, name, Mode::RWXU) {
            Ok(()) => self.account(0),
            Err(Errno::EXIST) => {
                let found = look(&dir, name)?;
                if found != FileType::Directory {
                    self.root.forget_paths();
                    unlinkat(&dir, name, AtFlags::empty())?;
                    mkdirat(&dir, name, Mode::RWXU)?;
                    if found == FileType::CharacterDevice {
                        // The directory replaces a whiteout, so lower layers must stay hidden.
                        attributes::set_opaque(&dir, name)?;
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
        attributes::set_at(&dir, name, entry)?;
        self.root.explicit(path);
        self.held += REMEMBERED + path.len() as u64;
        self.times.insert(path.to_vec(), entry.mtime);
        Ok(())
    }

    fn begin(&mut self, path: &[u8], entry: &Entry, size: u64) -> Result<bool> {
        let (dir, name) = self.place(path)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (file, overwrote) = self.make(&dir, path, name, |dir, name| {
            openat(dir, name, flags, Mode::RUSR | Mode::WUSR)
        })?;
        let sparse = matches!(&entry.kind, EntryKind::File { sparse, .. } if sparse.is_some());
        if sparse || size >= HOLE as u64 {
            rustix::fs::ftruncate(&file, size)?;
        }
        self.file = Some(file.into());
        Ok(overwrote)
    }

    fn content(&mut self, piece: &[u8], at: u64) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(Errno::BADF)?;
        write_but_holes(file, piece, at)
    }

    fn end(&mut self, entry: &Entry, stored: u64) -> Result<()> {
        let file = self.file.take().ok_or(Errno::BADF)?;
        attributes::set_on_file(&file, entry)?;
        self.account(stored);
        Ok(())
    }

    fn special(&mut self, path: &[u8], entry: &Entry) -> Result<bool> {
        let (dir, name) = self.place(path)?;
        let node = |dir: &OwnedFd, name: &[u8], kind, device| {
            mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, device)
        };
        let make = |dir: &OwnedFd, name: &[u8]| match &entry.kind {
            EntryKind::Symlink(target) => symlinkat(&target[..], dir, name),
            EntryKind::Fifo => node(dir, name, FileType::Fifo, 0),
            EntryKind::CharDevice { major, minor } => node(
                dir,
                name,
                FileType::CharacterDevice,
                makedev(*major, *minor),
            ),
            EntryKind::BlockDevice { major, minor } => {
                node(dir, name, FileType::BlockDevice, makedev(*major, *minor))
            }
            _ => Err(Errno::INVAL),
        };
        let ((), overwrote) = self.make(&dir, path, name, make)?;
        attributes::set_at(&*dir, name, entry)?;
        self.account(0);
        Ok(overwrote)
    }

    fn hard_link(&mut self, path: &[u8], to: &[u8]) -> Result<Linked> {
        let (from_dir, from_name) = match self.root.existing_place(to) {
            Ok(place) => place,
            Err(Errno::NOENT) => return Ok(Linked::Missing),
            Err(error) => return Err(error.into()),
        };
        let (dir, name) = self.place(path)?;
        // A link to itself must not remove its target.
        if same_file(&from_dir, from_name, &dir, name) {
            return Ok(Linked::Done { overwrote: false });
        }
        let link =
            |dir: &OwnedFd, name: &[u8]| linkat(&from_dir, from_name, dir, name, AtFlags::empty());
        match self.make(&dir, path, name, link) {
            Ok(((), overwrote)) => Ok(Linked::Done { overwrote }),
            Err(Errno::NOENT) => Ok(Linked::Missing),
            Err(Errno::PERM) => Ok(Linked::Directory),
            Err(error) => Err(error.into()),
        }
    }

    fn whiteout(&mut self, path: &[u8]) -> Result<()> {
        let (dir, name) = self.place(path)?;
        let device = FileType::CharacterDevice;
        match mknodat(&dir, name, device, Mode::empty(), makedev(0, 0)) {
            Ok(()) => {
                self.account(0);
                Ok(())
            }
            Err(Errno::EXIST) if look(&dir, name)? == FileType::Directory => {
                Ok(attributes::set_opaque(&*dir, name)?)
            }
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn opaque(&mut self, path: &[u8]) -> Result<()> {
        // Resolving a path inside the directory creates it.
        let inside = [path, b"/."].concat();
        let (dir, _) = self.place(&inside)?;
        Ok(attributes::set_opaque(&*dir, b".")?)
    }

    fn finish(mut self) -> Result<(Unpacked, ()), (Vec<u8>, Problem)> {
        for (path, mtime) in std::mem::take(&mut self.times) {
            let set = if path.is_empty() {
                attributes::set_mtime(self.root.fd(), b".", mtime)
            } else {
                self.root
                    .existing_place(&path)
                    .and_then(|(dir, name)| attributes::set_mtime(&*dir, name, mtime))
            };
            set.map_err(|error| (path, error.into()))?;
        }
        self.done.implicit = self.root.into_implicit().into_iter().collect();
        Ok((self.done, ()))
    }
}

fn look(dir: &OwnedFd, name: &[u8]) -> Result<FileType, Errno> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

fn same_file(a: impl AsFd, a_name: &[u8], b: impl AsFd, b_name: &[u8]) -> bool {
    let look = |dir: BorrowedFd<'_>, name| statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    match (look(a.as_fd(), a_name), look(b.as_fd(), b_name)) {
        (Ok(a), Ok(b)) => a.st_dev == b.st_dev && a.st_ino == b.st_ino,
        _ => false,
    }
}

/// Writes a piece without its long runs of zeros, which the file already contains as holes.
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
