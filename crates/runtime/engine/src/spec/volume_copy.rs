//! Copying the image's files into a volume.
//!
//! The image determines the amount and depth of its files: so holes stay holes, the disk keeps a reserve,
//! and the copy ends when the client cancels the creation.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use orlop_fs::{Descent, Room, Step, Walk};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags, chownat,
    fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fstat, mkdirat, mknodat, openat, readlinkat,
    statat, symlinkat, utimensat,
};
use rustix::io::Errno;

/// Number of bytes that are copied at once.
const PIECE: u64 = 8 << 20;

/// A copy in progress.
pub(super) struct Copy<'a> {
    /// Whether no caller waits for it any more.
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
    room: Room,
}

impl<'a> Copy<'a> {
    pub(super) fn new(stop: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self {
            stop,
            room: Room::default(),
        }
    }

    /// Copies the content of a directory into an empty one, then its owner, mode and times.
    pub(super) fn directory(&mut self, from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
        let mut walk = Walk::new(from)?;
        let mut target = Descent::new(to)?;
        while let Some(step) = walk.next()? {
            if walk.depth() + usize::from(matches!(step, Step::Left(_))) != target.depth() {
                return Err(Errno::STALE.into());
            }
            match step {
                Step::Entry(entry) => self.entry(&mut walk, &mut target, &entry.name)?,
                Step::Left(name) => {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                    let flags = flags | OFlags::CLOEXEC;
                    let done = openat(walk.here(), &name, flags, Mode::empty())?;
                    finish(done.as_fd(), target.here(), &fstat(&done)?)?;
                    target.leave()?;
                }
            }
        }
        finish(from.as_fd(), to.as_fd(), &fstat(from)?)
    }

    fn entry(&mut self, walk: &mut Walk, target: &mut Descent, name: &CStr) -> io::Result<()> {
        let (from, to) = (walk.here(), target.here());
        let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        self.count(None, to)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                mkdirat(to, name, Mode::RWXU)?;
                target.enter(name)?;
                walk.enter(name)?;
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let source = File::from(openat(from, name, flags, Mode::empty())?);
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let made = File::from(openat(to, name, flags, Mode::RUSR | Mode::WUSR)?);
                self.content(&source, &made)?;
                finish(source.as_fd(), made.as_fd(), &stat)?;
            }
            FileType::Symlink => {
                let leads_to = readlinkat(from, name, Vec::new())?;
                symlinkat(leads_to.as_c_str(), to, name)?;
                own(to, name, &stat)?;
            }
            kind @ (FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice) => {
                let mode = Mode::from_raw_mode(stat.st_mode);
                mknodat(to, name, kind, mode, stat.st_rdev)?;
                own(to, name, &stat)?;
            }
            // A socket is useless without the process that listens.
            FileType::Socket | FileType::Unknown => {}
        }
        Ok(())
    }

    /// Copies the data of a file without its holes.
    fn content(&mut self, mut from: &File, mut to: &File) -> io::Result<()> {
        let size = from.metadata()?.len();
        let mut at = 0;
        while at < size {
            let (begin, end) = match rustix::fs::seek(from, rustix::fs::SeekFrom::Data(at)) {
                // Only a hole is left.
                Err(Errno::NXIO) => break,
                // The file system does not support it.
                Err(Errno::INVAL) => (at, size),
                begin => {
                    let begin = begin?;
                    let end = rustix::fs::seek(from, rustix::fs::SeekFrom::Hole(begin))?;
                    (begin, end.min(size))
                }
            };
            at = begin;
            from.seek(SeekFrom::Start(at))?;
            to.seek(SeekFrom::Start(at))?;
            while at < end {
                let piece = PIECE.min(end - at);
                self.count(Some(piece), to.as_fd())?;
                let copied = io::copy(&mut from.take(piece), &mut to)?;
                if copied == 0 {
                    break;
                }
                at += copied;
            }
            if at < end {
                break;
            }
        }
        to.set_len(size)
    }

    /// Counts content, or an entry without it, before it is made; checks for cancellation now and then.
    fn count(&mut self, content: Option<u64>, to: BorrowedFd<'_>) -> io::Result<()> {
        let looked = match content {
            Some(more) => self.room.content(more, to)?,
            None => self.room.entry(to)?,
        };
        if looked && (self.stop)() {
            let problem = "the client cancelled the container creation";
            return Err(io::Error::new(io::ErrorKind::Interrupted, problem));
        }
        Ok(())
    }
}

/// Copies owner, then mode: a change of owner clears the set-id bits.
fn finish(from: BorrowedFd<'_>, to: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
    fchown(to, Some(uid(stat)), Some(gid(stat)))?;
    fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    copy_xattrs(from, to)?;
    rustix::fs::futimens(to, &times(stat))?;
    Ok(())
}

fn own(dir: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> io::Result<()> {
    chownat(
        dir,
        name,
        Some(uid(stat)),
        Some(gid(stat)),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    utimensat(dir, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

/// Copies capabilities, ACLs and other attributes; those that the filesystem does not support are skipped.
fn copy_xattrs(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    let mut names = vec![0u8; 64 << 10];
    let length = match flistxattr(from, &mut names) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        length => length?,
    };
    let mut value = vec![0u8; 64 << 10];
    for name in names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        // The volume gets its own label.
        if name == b"security.selinux" || name.starts_with(b"trusted.overlay.") {
            continue;
        }
        let length = match fgetxattr(from, name, &mut value) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => continue,
            length => length?,
        };
        match fsetxattr(to, name, &value[..length], XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn uid(stat: &Stat) -> Uid {
    Uid::from_raw(stat.st_uid)
}

fn gid(stat: &Stat) -> Gid {
    Gid::from_raw(stat.st_gid)
}

fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: stat.st_atime,
            tv_nsec: i64::try_from(stat.st_atime_nsec).unwrap_or(0),
        },
        last_modification: Timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    use std::path::Path;

    use super::*;

    fn copy(from: &Path, to: &Path, copy: &mut Copy<'_>) -> io::Result<()> {
        copy.directory(&File::open(from)?.into(), &File::open(to)?.into())
    }

    #[test]
    fn a_sparse_file_of_terabytes_is_copied_as_what_it_holds() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = File::create(from.path().join("sparse")).unwrap();
        file.write_all_at(b"begin", 0).unwrap();
        file.write_all_at(b"middle", 1 << 40).unwrap();
        file.set_len(4 << 40).unwrap();
        copy(from.path(), to.path(), &mut Copy::new(&|| false)).unwrap();
        let made = File::open(to.path().join("sparse")).unwrap();
        let look = made.metadata().unwrap();
        assert_eq!(look.len(), 4 << 40);
        assert!(look.blocks() * 512 < 1 << 20, "{} blocks", look.blocks());
        let mut text = [0; 6];
        made.read_exact_at(&mut text, 1 << 40).unwrap();
        assert_eq!(&text, b"middle");
        made.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"begin\0");
    }

    #[test]
    fn a_tree_nested_beyond_any_stack_is_copied() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let innermost = orlop_testkit::nest(from.path(), 1200);
        fchown(&innermost, Some(Uid::from_raw(7)), None).unwrap();
        let (source, target) = (from.keep(), to.keep());
        let paths = (source.clone(), target.clone());
        let copied = std::thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(move || copy(&paths.0, &paths.1, &mut Copy::new(&|| false)));
        copied.unwrap().join().unwrap().unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut here = OwnedFd::from(File::open(&target).unwrap());
        for _ in 0..1200 {
            here = openat(&here, "d", flags, Mode::empty()).unwrap();
        }
        assert_eq!(fstat(&here).unwrap().st_uid, 7);
        orlop_fs::remove_tree(&source).unwrap();
        orlop_fs::remove_tree(&target).unwrap();
    }

    #[test]
    fn a_copy_leaves_the_disk_its_reserve() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(from.path().join("file"), vec![1; 20 << 20]).unwrap();
        let mut copied = Copy::new(&|| false);
        copied.room = Room::leaving(|_| u64::MAX);
        let full = copy(from.path(), to.path(), &mut copied).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(full.to_string().contains("are reserved"), "{full}");
        let written = to.path().join("file").metadata().unwrap().len();
        assert!(written <= PIECE, "{written} bytes");
    }

    #[test]
    fn a_copy_that_nobody_waits_for_ends() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(from.path().join("file"), vec![1; 20 << 20]).unwrap();
        let left = copy(from.path(), to.path(), &mut Copy::new(&|| true)).unwrap_err();
        assert!(left.to_string().contains("client cancelled"), "{left}");
        let written = to.path().join("file").metadata().unwrap().len();
        assert!(written <= PIECE, "{written} bytes");
    }
}
