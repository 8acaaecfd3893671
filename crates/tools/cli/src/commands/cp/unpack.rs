//! Unpacks an archive from a container, always beneath the target. Names that lead out of it or through a link are
//! refused. Links that point out of the tree and devices are skipped.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, RawMode, ResolveFlags, Timespec, Timestamps, Uid, chownat,
    fchmod, fchown, futimens, linkat, mkdirat, open, openat, openat2, readlinkat, renameat, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use tar::{Archive, Entry, EntryType};
use tokio_util::sync::CancellationToken;

use super::copied::{Copied, Keep};
use super::place::split;

/// Limit of nested directories in a name.
const MAX_DEPTH: usize = 512;

/// Limit of bytes after the end of an archive; `tar` pads its last record to 10 KiB.
const MAX_PADDING: u64 = 1 << 20;

/// Local target of an archive.
#[derive(Debug)]
pub(super) struct Target {
    /// Existing directory to unpack into.
    directory: PathBuf,
    /// Name in the container and local name; `None` to unpack everything into the directory.
    name: Option<(OsString, OsString)>,
}

impl Target {
    /// Unpacks into an existing directory, else under the name itself.
    pub(super) fn new(path: &str, here: &Path) -> anyhow::Result<Self> {
        let (_, name) = split(path);
        let name = name.map(OsString::from);
        if here.is_dir() {
            return Ok(Self {
                directory: here.to_owned(),
                name: name.map(|name| (name.clone(), name)),
            });
        }
        let parent = match here.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let slash = here.as_os_str().as_bytes().ends_with(b"/");
        if slash || !parent.is_dir() {
            let missing = if slash { here } else { parent };
            bail!("the directory {} does not exist", missing.display());
        }
        let own = here
            .file_name()
            .context("the target path has no file name")?;
        match name {
            Some(name) => Ok(Self {
                directory: parent.to_owned(),
                name: Some((name, own.to_owned())),
            }),
            None => bail!(
                "the directory {} for the contents of {path} does not exist",
                here.display()
            ),
        }
    }

    /// Unpacks the archive. A new tree is renamed into place when it is complete.
    pub(super) fn unpack(
        self,
        from: impl Read,
        keep: Keep,
        cancelled: &CancellationToken,
    ) -> anyhow::Result<Copied> {
        let directory = open_directory(CWD, self.directory.as_os_str())
            .with_context(|| format!("cannot open {}", self.directory.display()))?;
        let fresh = self.name.as_ref().filter(|(_, own)| {
            statat(&directory, own, AtFlags::SYMLINK_NOFOLLOW).is_err_and(|e| e == Errno::NOENT)
        });
        let staged = fresh.map(|(_, own)| {
            let mut name = OsString::from(format!(".orlop-cp-{}-", std::process::id()));
            name.push(own);
            (name, own.clone())
        });
        let root = match (&staged, &self.name) {
            (Some((temporary, _)), Some((theirs, _))) => Some((theirs.clone(), temporary.clone())),
            (_, name) => name.clone(),
        };
        let mut unpacker = Unpacker {
            directory,
            root,
            keep,
            copied: Copied::default(),
            directories: Vec::new(),
        };
        let unpacked = unpacker.all(from, cancelled).and_then(|()| {
            unpacker.finish_directories();
            match &staged {
                Some((temporary, own)) => {
                    renameat(&unpacker.directory, temporary, &unpacker.directory, own).map_err(
                        |errno| match errno {
                            Errno::NOENT => anyhow::anyhow!("the container sent no data"),
                            errno => errno.into(),
                        },
                    )
                }
                None => Ok(()),
            }
        });
        if let (Err(_), Some((temporary, _))) = (&unpacked, &staged) {
            remove(&unpacker.directory, temporary);
        }
        unpacked.map(|()| unpacker.copied)
    }
}

struct Unpacker {
    directory: OwnedFd,
    root: Option<(OsString, OsString)>,
    keep: Keep,
    copied: Copied,
    /// Directories that get their modes and times after everything is unpacked.
    directories: Vec<(PathBuf, RawMode, Timestamps)>,
}

impl Unpacker {
    fn all(&mut self, from: impl Read, cancelled: &CancellationToken) -> anyhow::Result<()> {
        let mut archive = Archive::new(Watched {
            from,
            at_end: false,
        });
        for entry in archive.entries()? {
            if cancelled.is_cancelled() {
                bail!("interrupted");
            }
            let mut entry = entry.context("the container sent data that is not a tar archive")?;
            let theirs = PathBuf::from(OsStr::from_bytes(&entry.path_bytes()));
            self.entry(&mut entry, &theirs)
                .with_context(|| shown(&theirs))?;
        }
        // An archive ends with blocks of zeros. If the stream ends before them, it was truncated.
        let mut rest = archive.into_inner();
        if rest.at_end {
            bail!("the tar archive from the container is truncated");
        }
        // If the padding is not read, the sender fails.
        io::copy(&mut rest.by_ref().take(MAX_PADDING), &mut io::sink())?;
        Ok(())
    }

    fn entry<R: Read>(&mut self, entry: &mut Entry<'_, R>, theirs: &Path) -> anyhow::Result<()> {
        let Some(path) = self.path(theirs)? else {
            return Ok(());
        };
        let kind = entry.header().entry_type();
        match kind {
            EntryType::Directory => self.make_directory(entry, &path),
            EntryType::Regular | EntryType::Continuous => self.make_file(entry, &path),
            // A header of 512 bytes could cause any number of zeros to be written here.
            EntryType::GNUSparse => {
                bail!("the container sent a sparse file, which is not supported")
            }
            EntryType::Symlink => self.make_symlink(entry, theirs, &path),
            EntryType::Link => self.make_link(entry, theirs, &path),
            EntryType::XGlobalHeader => Ok(()),
            _ => {
                say!("warning: skipped {}: it is a device or pipe", shown(theirs));
                self.copied.left_out += 1;
                Ok(())
            }
        }
    }

    /// Returns the target of an entry; `None` for the directory itself. Entries with unexpected names are refused, so
    /// that the container cannot choose local files.
    fn path(&self, theirs: &Path) -> anyhow::Result<Option<PathBuf>> {
        let mut names = Vec::new();
        for component in theirs.components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => names.push(name),
                _ => bail!("the container sent a path outside of the requested directory"),
            }
        }
        if names.len() > MAX_DEPTH {
            bail!("the container sent a path that is nested too deeply");
        }
        let Some((root, own)) = &self.root else {
            return Ok((!names.is_empty()).then(|| names.iter().collect()));
        };
        match names.split_first() {
            Some((first, rest)) if first == root => Ok(Some(
                Path::new(own)
                    .join(rest.iter().collect::<PathBuf>())
                    .components()
                    .collect(),
            )),
            None => Ok(None),
            Some(_) => bail!("the container sent a path that was not requested"),
        }
    }

    /// Opens the parent directory of a path, and returns the name in it.
    fn parent(&self, path: &Path) -> anyhow::Result<(OwnedFd, OsString)> {
        let name = path.file_name().context("it has no name")?.to_owned();
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        match self.beneath(parent) {
            Ok(parent) => Ok((parent, name)),
            Err(Errno::LOOP | Errno::XDEV) => bail!("its path leads through a symbolic link"),
            Err(errno) => Err(errno).context("cannot open its target directory"),
        }
    }

    /// Opens a directory of the tree without following links.
    fn beneath(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat2(&self.directory, path, flags, Mode::empty(), resolve)
    }

    fn make_directory<R: Read>(&mut self, entry: &Entry<'_, R>, path: &Path) -> anyhow::Result<()> {
        let (parent, name) = self.parent(path)?;
        match mkdirat(&parent, &name, Mode::from_raw_mode(0o700)) {
            Err(Errno::EXIST) => {
                // A link there is not followed.
                open_directory(&parent, &name).context("another file with this name exists")?;
                return Ok(());
            }
            made => made.context("cannot create it")?,
        }
        self.own(entry, &parent, &name)?;
        let mode = self.mode(entry, 0o755);
        self.directories.push((path.to_owned(), mode, times(entry)));
        Ok(())
    }

    /// Writes a file under a temporary name and renames it: an existing file stays until then.
    fn make_file<R: Read>(&mut self, entry: &mut Entry<'_, R>, path: &Path) -> anyhow::Result<()> {
        let (parent, name) = self.parent(path)?;
        if statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
        }) {
            bail!("a directory with this name exists");
        }
        let temporary = format!(".orlop-cp-{}", std::process::id());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let _ = unlinkat(&parent, &temporary, AtFlags::empty());
        let file = openat(&parent, &temporary, flags, Mode::from_raw_mode(0o600));
        let mut file = File::from(file.context("cannot create it")?);
        let written = io::copy(entry, &mut file)
            .map_err(anyhow::Error::from)
            .and_then(|bytes| {
                if self.keep == Keep::Owners {
                    let (uid, gid) = owner(entry)?;
                    fchown(&file, Some(uid), Some(gid))?;
                }
                fchmod(&file, Mode::from_raw_mode(self.mode(entry, 0o644)))?;
                futimens(&file, &times(entry))?;
                renameat(&parent, &temporary, &parent, &name)?;
                Ok(bytes)
            });
        if written.is_err() {
            let _ = unlinkat(&parent, &temporary, AtFlags::empty());
        }
        self.copied.bytes += written.context("cannot write it")?;
        self.copied.files += 1;
        Ok(())
    }

    fn make_symlink<R: Read>(
        &mut self,
        entry: &Entry<'_, R>,
        theirs: &Path,
        path: &Path,
    ) -> anyhow::Result<()> {
        let target = entry
            .link_name_bytes()
            .context("the target of the hard link does not exist")?;
        let target = Path::new(OsStr::from_bytes(&target)).to_owned();
        if !self.stays_within(&target, path) {
            self.leave_out(theirs, &target);
            return Ok(());
        }
        let (parent, name) = self.parent(path)?;
        remove_file(&parent, &name);
        symlinkat(&target, &parent, &name).context("cannot create the link")?;
        Ok(())
    }

    fn make_link<R: Read>(
        &mut self,
        entry: &Entry<'_, R>,
        theirs: &Path,
        path: &Path,
    ) -> anyhow::Result<()> {
        let target = entry
            .link_name_bytes()
            .context("the target of the hard link does not exist")?;
        let target = Path::new(OsStr::from_bytes(&target)).to_owned();
        let target = self
            .path(&target)?
            .context("the target of the hard link does not exist")?;
        let (there, its_name) = self.parent(&target)?;
        // A hard link to a symbolic link would resolve it from another directory.
        if let Ok(leads_to) = readlinkat(&there, &its_name, Vec::new()) {
            let leads_to = Path::new(OsStr::from_bytes(leads_to.to_bytes()));
            if !self.stays_within(leads_to, path) {
                self.leave_out(theirs, leads_to);
                return Ok(());
            }
        }
        let (parent, name) = self.parent(path)?;
        remove_file(&parent, &name);
        linkat(&there, &its_name, &parent, &name, AtFlags::empty())
            .context("cannot create a hard link to the earlier file")?;
        self.copied.files += 1;
        Ok(())
    }

    /// Returns whether a symbolic link at this path stays in the tree, whatever else is unpacked. `..` is allowed only
    /// from existing directories, which nothing can replace: from a link it would lead elsewhere.
    fn stays_within(&self, target: &Path, path: &Path) -> bool {
        let mut place = path.parent().unwrap_or(Path::new("")).to_owned();
        let depth = |place: &Path| place.components().count();
        // If the root of the tree is a link, nothing is beneath it.
        let root = depth(&place).min(usize::from(self.root.is_some()));
        for component in target.components() {
            match component {
                Component::ParentDir => {
                    if depth(&place) <= root || self.beneath(&place).is_err() {
                        return false;
                    }
                    place.pop();
                }
                Component::Normal(name) => place.push(name),
                Component::CurDir => {}
                Component::RootDir | Component::Prefix(_) => return false,
            }
        }
        true
    }

    fn leave_out(&mut self, theirs: &Path, target: &Path) {
        say!(
            "warning: skipped {}: it is a symbolic link to {}, which may lead out of the copied tree",
            shown(theirs),
            shown(target)
        );
        self.copied.left_out += 1;
    }

    fn own<R: Read>(
        &self,
        entry: &Entry<'_, R>,
        parent: &OwnedFd,
        name: &OsStr,
    ) -> anyhow::Result<()> {
        if self.keep == Keep::Owners {
            let (uid, gid) = owner(entry)?;
            chownat(
                parent,
                name,
                Some(uid),
                Some(gid),
                AtFlags::SYMLINK_NOFOLLOW,
            )?;
        }
        Ok(())
    }

    /// Returns the mode without set-ID bits, unless they are requested.
    fn mode<R: Read>(&self, entry: &Entry<'_, R>, default: RawMode) -> RawMode {
        let mode = entry.header().mode().unwrap_or(default);
        match self.keep {
            Keep::Plain => mode & 0o777,
            Keep::Owners => mode & 0o7777,
        }
    }

    /// Sets modes and times of directories, innermost first.
    fn finish_directories(&mut self) {
        for (path, mode, times) in std::mem::take(&mut self.directories).into_iter().rev() {
            let Ok((parent, name)) = self.parent(&path) else {
                continue;
            };
            if let Ok(directory) = open_directory(&parent, &name) {
                let _ = fchmod(&directory, Mode::from_raw_mode(mode));
                let _ = futimens(&directory, &times);
            }
        }
    }
}

/// A reader that records the end of the stream.
struct Watched<R> {
    from: R,
    at_end: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.at_end |= read == 0 && !into.is_empty();
        Ok(read)
    }
}

fn owner<R: Read>(entry: &Entry<'_, R>) -> anyhow::Result<(Uid, Gid)> {
    let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX);
    let uid = id(entry.header().uid()?).context("its owner is not a valid number")?;
    let gid = id(entry.header().gid()?).context("its group is not a valid number")?;
    Ok((Uid::from_raw(uid), Gid::from_raw(gid)))
}

fn times<R: Read>(entry: &Entry<'_, R>) -> Timestamps {
    let time = Timespec {
        tv_sec: i64::try_from(entry.header().mtime().unwrap_or(0)).unwrap_or(0),
        tv_nsec: 0,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn open_directory(parent: impl std::os::fd::AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // The target itself may be reached through links of the user.
    if parent.as_fd().as_raw_fd() == CWD.as_raw_fd() {
        return open(Path::new(name), flags, Mode::empty());
    }
    openat(parent, name, flags | OFlags::NOFOLLOW, Mode::empty())
}

/// Removes a file to make room for another; directories stay.
fn remove_file(parent: &OwnedFd, name: &OsStr) {
    let _ = unlinkat(parent, name, AtFlags::empty());
}

/// Removes a partial copy.
fn remove(directory: &OwnedFd, name: &OsStr) {
    let _ = orlop_fs::remove_tree_at(directory, name);
}

/// Makes a name from the container safe to print on a terminal.
fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.chars()
        .take(200)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
#[path = "unpack_tests.rs"]
mod tests;
