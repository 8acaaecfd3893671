//! Packs local files into an archive. A container may share these files and move them meanwhile. Below the first
//! directory, everything is opened relative to its parent directory, and no link is followed.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat,
};
use rustix::io::Errno;
use rustix::path::Arg;
use tar::{Builder, EntryType, Header};
use tokio_util::sync::CancellationToken;

use super::copied::{Copied, Keep};

/// Limit of nested directories; deeper trees are refused as an attack.
const MAX_DEPTH: usize = 512;

/// Writes the file or directory at `path` as an archive in which it is called `name`.
pub(super) fn pack(
    path: &Path,
    name: &str,
    to: impl Write,
    keep: Keep,
    cancelled: &CancellationToken,
) -> anyhow::Result<Copied> {
    let mut packer = Packer {
        archive: Builder::new(BufWriter::with_capacity(64 << 10, to)),
        keep,
        copied: Copied::default(),
        cancelled: cancelled.clone(),
    };
    let place = Place {
        holder: CWD,
        at: path.as_os_str(),
        path,
    };
    packer.add(&place, Path::new(name), 0)?;
    packer.archive.into_inner()?.flush()?;
    Ok(packer.copied)
}

/// Location of a file.
struct Place<'a> {
    holder: BorrowedFd<'a>,
    /// Name in the parent directory.
    at: &'a OsStr,
    /// Full path, for messages only.
    path: &'a Path,
}

struct Packer<W: Write> {
    archive: Builder<W>,
    keep: Keep,
    copied: Copied,
    cancelled: CancellationToken,
}

impl<W: Write> Packer<W> {
    fn add(&mut self, place: &Place<'_>, name: &Path, depth: usize) -> anyhow::Result<()> {
        if self.cancelled.is_cancelled() {
            bail!("interrupted");
        }
        let failed = || format!("cannot read {}", place.path.display());
        let stat =
            statat(place.holder, place.at, AtFlags::SYMLINK_NOFOLLOW).with_context(failed)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                if depth >= MAX_DEPTH {
                    bail!("{} is nested too deeply", place.path.display());
                }
                let directory = open_directory(place).with_context(failed)?;
                let stat = fstat(&directory).with_context(failed)?;
                let mut header = self.header(&stat, EntryType::Directory);
                self.archive.append_data(&mut header, name, io::empty())?;
                for own in names(&directory).with_context(failed)? {
                    let own = OsStr::from_bytes(own.to_bytes());
                    let path: PathBuf = place.path.join(own);
                    let place = Place {
                        holder: directory.as_fd(),
                        at: own,
                        path: &path,
                    };
                    self.add(&place, &name.join(own), depth + 1)?;
                }
            }
            FileType::RegularFile => {
                let file = open_file_at(place.holder, place.at).with_context(failed)?;
                let stat = fstat(&file).with_context(failed)?;
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                let mut header = self.header(&stat, EntryType::Regular);
                header.set_size(size);
                // The content must match the announced size, even if the file grows or shrinks meanwhile.
                let mut exactly = Exactly { file, left: size };
                self.archive.append_data(&mut header, name, &mut exactly)?;
                self.copied.files += 1;
                self.copied.bytes += size;
            }
            FileType::Symlink => {
                let target = readlinkat(place.holder, place.at, Vec::new()).with_context(failed)?;
                let mut header = self.header(&stat, EntryType::Symlink);
                let target = OsStr::from_bytes(target.to_bytes());
                self.archive.append_link(&mut header, name, target)?;
            }
            kind => {
                let what = match kind {
                    FileType::Socket => "a socket",
                    _ => "a device or pipe",
                };
                say!("warning: skipped {}: it is {what}", place.path.display());
                self.copied.left_out += 1;
            }
        }
        Ok(())
    }

    fn header(&self, stat: &Stat, kind: EntryType) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
        match self.keep {
            // The files belong to root in the container.
            Keep::Plain => {
                header.set_mode(stat.st_mode & 0o777);
                header.set_uid(0);
                header.set_gid(0);
            }
            Keep::Owners => {
                header.set_mode(stat.st_mode & 0o7777);
                header.set_uid(stat.st_uid.into());
                header.set_gid(stat.st_gid.into());
            }
        }
        header
    }
}

fn open_directory(place: &Place<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(place.holder, place.at, flags, Mode::empty())
}

/// Returns the sorted names in a directory.
fn names(directory: &OwnedFd) -> rustix::io::Result<Vec<CString>> {
    let mut names = Dir::read_from(directory)?
        .map(|entry| Ok(entry?.file_name().to_owned()))
        .filter(|name| !matches!(name, Ok(name) if matches!(name.to_bytes(), b"." | b"..")))
        .collect::<Result<Vec<_>, Errno>>()?;
    names.sort();
    Ok(names)
}

/// Opens a regular file. The container may have replaced it by a link or pipe since it was examined.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    open_file_at(CWD, path)
}

fn open_file_at(holder: BorrowedFd<'_>, name: impl Arg) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(holder, name, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no longer a regular file"));
    }
    Ok(file)
}

/// Reads exactly the announced number of bytes, with zeros for missing ones.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if room == 0 {
            return Ok(0);
        }
        let read = match self.file.read(&mut buffer[..room])? {
            0 => {
                buffer[..room].fill(0);
                room
            }
            read => read,
        };
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
#[path = "pack_tests.rs"]
mod tests;
