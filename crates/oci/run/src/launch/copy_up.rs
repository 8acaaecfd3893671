//! `tmpcopyup`: copies the content that a new file system hides into it.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, Timestamps, Uid, chownat, fchmod, fchown, fstat,
    futimens, mkdirat, mknodat, openat, readlinkat, sendfile, symlinkat,
};
use rustix::io::{Errno, Result};

use crate::sys::FileMaker;
use crate::users;

/// Maximum depth of copied directories; a real image is never deeper.
const DEPTH: u32 = 64;
/// Maximum number of copied entries.
const ENTRIES: u32 = 100_000;

/// Copies a directory's content. Both descriptors may be `O_PATH` ones.
pub(super) fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<()> {
    let from = again(from)?;
    let to = again(to)?;
    let look = fstat(&from)?;
    let root = fstat(&to)?;
    // A file system of another user namespace can have no files of the host's root.
    let _maker = FileMaker::be(root.st_uid, root.st_gid)?;
    let mut left = ENTRIES;
    tree(&from, &to, DEPTH, &mut left)?;
    if_known(fchown(
        &to,
        Some(Uid::from_raw(look.st_uid)),
        Some(Gid::from_raw(look.st_gid)),
    ))?;
    fchmod(&to, Mode::from_raw_mode(look.st_mode & 0o7777))
}

fn again(dir: BorrowedFd<'_>) -> Result<OwnedFd> {
    openat(
        dir,
        c".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

fn tree(from: &OwnedFd, to: &OwnedFd, depth: u32, left: &mut u32) -> Result<()> {
    if depth == 0 {
        return Err(Errno::LOOP);
    }
    for entry in Dir::read_from(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        *left = left.checked_sub(1).ok_or(Errno::NOSPC)?;
        one(from, to, name, depth, left)?;
    }
    Ok(())
}

fn one(from: &OwnedFd, to: &OwnedFd, name: &CStr, depth: u32, left: &mut u32) -> Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let look = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let (uid, gid) = (
        Some(Uid::from_raw(look.st_uid)),
        Some(Gid::from_raw(look.st_gid)),
    );
    let mode = Mode::from_raw_mode(look.st_mode & 0o7777);
    let kind = FileType::from_raw_mode(look.st_mode);
    match kind {
        FileType::Directory => {
            mkdirat(to, name, Mode::from_raw_mode(0o700))?;
            let source = openat(
                from,
                name,
                flags | OFlags::DIRECTORY | OFlags::RDONLY,
                Mode::empty(),
            )?;
            let target = openat(
                to,
                name,
                flags | OFlags::DIRECTORY | OFlags::RDONLY,
                Mode::empty(),
            )?;
            tree(&source, &target, depth - 1, left)?;
            return finish(target.as_fd(), &look, mode);
        }
        FileType::RegularFile => {
            let source = openat(from, name, flags | OFlags::RDONLY, Mode::empty())?;
            let make = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
            let target = openat(to, name, flags | make, Mode::from_raw_mode(0o600))?;
            while sendfile(&target, &source, None, 1 << 20)? > 0 {}
            return finish(target.as_fd(), &look, mode);
        }
        FileType::Symlink => symlinkat(readlinkat(from, name, Vec::new())?.as_c_str(), to, name)?,
        _ => match mknodat(to, name, kind, mode, look.st_rdev) {
            // Device nodes cannot be made in user namespaces, and sockets are useless without a listener.
            Err(Errno::PERM) => return Ok(()),
            made => made?,
        },
    }
    if_known(chownat(to, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW))
}

/// Ignores an owner without a mapping in the file system's user namespace: the file stays its root's.
fn if_known(owned: Result<()>) -> Result<()> {
    match owned {
        Err(Errno::OVERFLOW | Errno::INVAL) => Ok(()),
        // A user who is not root cannot change owners either.
        Err(Errno::PERM) if !users::is_root() => Ok(()),
        owned => owned,
    }
}

fn finish(target: BorrowedFd<'_>, look: &rustix::fs::Stat, mode: Mode) -> Result<()> {
    if_known(fchown(
        target,
        Some(Uid::from_raw(look.st_uid)),
        Some(Gid::from_raw(look.st_gid)),
    ))?;
    fchmod(target, mode)?;
    let time = |secs: i64, nanos: u64| rustix::fs::Timespec {
        tv_sec: secs,
        tv_nsec: nanos as _,
    };
    let times = Timestamps {
        last_access: time(look.st_atime, look.st_atime_nsec),
        last_modification: time(look.st_mtime, look.st_mtime_nsec),
    };
    futimens(target, &times)
}
