//! Finds mount targets, and creates missing ones. The walk stays below the root whatever symlinks say, opens one
//! directory after the other, and looks up no path twice.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, readlinkat_raw,
};
use rustix::io::{Errno, Result, dup};

/// Maximum number of followed symlinks, as in the kernel.
const LINKS: u32 = 40;

/// The type of a file to create if the target is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    Nothing,
    Directory,
    File,
}

/// Opens a path below `root` as an `O_PATH` descriptor. With `plain`, a symlink anywhere is refused.
pub(crate) fn find(root: BorrowedFd<'_>, path: &CStr, make: Make, plain: bool) -> Result<OwnedFd> {
    let mut resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    if plain {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    let path = if path.is_empty() { c"." } else { path };
    match openat2(
        root,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        resolve,
    ) {
        Err(Errno::NOENT) if make != Make::Nothing => Walk::new(path)?.go(root, make, plain),
        // Files in the tree are being moved: a walk step by step finds the target.
        Err(Errno::AGAIN) => Walk::new(path)?.go(root, make, plain),
        found => found,
    }
}

/// A bounded string that needs no allocation.
struct Text {
    bytes: [u8; libc::PATH_MAX as usize],
    length: usize,
}

impl Text {
    const fn new() -> Self {
        Self {
            bytes: [0; libc::PATH_MAX as usize],
            length: 0,
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.length + bytes.len();
        // The last byte is the terminating NUL.
        if end >= self.bytes.len() {
            return Err(Errno::NAMETOOLONG);
        }
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
        self.bytes[end] = 0;
        Ok(())
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn as_c(&self) -> Result<&CStr> {
        CStr::from_bytes_until_nul(&self.bytes).map_err(|_| Errno::NAMETOOLONG)
    }

    fn cut(&mut self, length: usize) {
        self.length = length;
        self.bytes[length] = 0;
    }
}

/// A walk through a tree, one name at a time.
struct Walk {
    /// The remaining path.
    rest: Text,
    /// The position in `rest`.
    at: usize,
    /// The path walked so far, without symlinks.
    done: Text,
    links: u32,
}

impl Walk {
    fn new(path: &CStr) -> Result<Self> {
        let mut rest = Text::new();
        rest.push(path.to_bytes())?;
        Ok(Self {
            rest,
            at: 0,
            done: Text::new(),
            links: 0,
        })
    }

    fn go(mut self, root: BorrowedFd<'_>, make: Make, plain: bool) -> Result<OwnedFd> {
        let mut here = dup(root)?;
        let mut name = Text::new();
        while self.next(&mut name)? {
            if name.as_bytes() == b".." {
                let up = self
                    .done
                    .as_bytes()
                    .iter()
                    .rposition(|&byte| byte == b'/')
                    .unwrap_or(0);
                self.done.cut(up);
                here = self.back(root)?;
                continue;
            }
            let last = self.is_at_the_end();
            let there = match step(here.as_fd(), name.as_c()?) {
                Err(Errno::NOENT) => {
                    match make {
                        Make::Nothing => return Err(Errno::NOENT),
                        Make::File if last => make_file(here.as_fd(), name.as_c()?)?,
                        _ => match mkdirat(&here, name.as_c()?, Mode::from_raw_mode(0o755)) {
                            Ok(()) | Err(Errno::EXIST) => {}
                            Err(error) => return Err(error),
                        },
                    }
                    step(here.as_fd(), name.as_c()?)?
                }
                there => there?,
            };
            let kind = FileType::from_raw_mode(fstat(&there)?.st_mode);
            if kind == FileType::Symlink {
                self.links += 1;
                if plain || self.links > LINKS {
                    return Err(Errno::LOOP);
                }
                if self.follow(there.as_fd())? {
                    self.done.cut(0);
                    here = dup(root)?;
                }
                continue;
            }
            if !last && kind != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            self.done.push(b"/")?;
            self.done.push(name.as_bytes())?;
            here = there;
        }
        Ok(here)
    }

    /// Takes the next name.
    fn next(&mut self, name: &mut Text) -> Result<bool> {
        loop {
            let rest = &self.rest.as_bytes()[self.at..];
            if rest.is_empty() {
                return Ok(false);
            }
            let end = rest
                .iter()
                .position(|&byte| byte == b'/')
                .unwrap_or(rest.len());
            name.cut(0);
            name.push(&rest[..end])?;
            self.at += (end + 1).min(rest.len());
            if !name.as_bytes().is_empty() && name.as_bytes() != b"." {
                return Ok(true);
            }
        }
    }

    fn is_at_the_end(&self) -> bool {
        self.rest.as_bytes()[self.at..]
            .iter()
            .all(|&byte| byte == b'/' || byte == b'.')
    }

    /// Continues with the target of a symlink; returns whether that is absolute.
    fn follow(&mut self, link: BorrowedFd<'_>) -> Result<bool> {
        let mut room = [MaybeUninit::<u8>::uninit(); libc::PATH_MAX as usize];
        let (target, _) = readlinkat_raw(link, c"", &mut room[..])?;
        let mut rest = Text::new();
        rest.push(target)?;
        if self.at < self.rest.length {
            rest.push(b"/")?;
            rest.push(&self.rest.as_bytes()[self.at..])?;
        }
        let from_root = rest.as_bytes().first() == Some(&b'/');
        self.rest = rest;
        self.at = 0;
        Ok(from_root)
    }

    /// Opens the current directory again from the root. `..` is not used, because another process may move directories.
    fn back(&self, root: BorrowedFd<'_>) -> Result<OwnedFd> {
        let path = self.done.as_c()?.to_bytes_with_nul();
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let path = CStr::from_bytes_with_nul(path).map_err(|_| Errno::INVAL)?;
        let path = if path.is_empty() { c"." } else { path };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        openat2(
            root,
            path,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            resolve,
        )
    }
}

/// Opens an entry, even a symlink; the mount on top of it, if there is one.
fn step(directory: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}

fn make_file(directory: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY;
    match openat(directory, name, flags, Mode::from_raw_mode(0o644)) {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::CWD;

    use super::*;

    fn open(dir: &std::path::Path) -> OwnedFd {
        openat(CWD, dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn what_is_missing_is_made_below_the_root_wherever_links_lead() {
        let outside = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("etc")).unwrap();
        symlink("../run/a/b", root.join("etc/dangling")).unwrap();
        symlink(outside.path(), root.join("absolute")).unwrap();
        symlink("../../../../../../up", root.join("etc/up")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let fd = open(&root);
        let make = |path: &CStr, what| find(fd.as_fd(), path, what, false);
        make(c"etc/dangling", Make::File).unwrap();
        assert!(root.join("run/a/b").is_file());
        make(c"absolute/x", Make::Directory).unwrap();
        assert!(
            root.join(outside.path().strip_prefix("/").unwrap())
                .join("x")
                .is_dir()
        );
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        make(c"etc/up/y", Make::Directory).unwrap();
        assert!(root.join("up/y").is_dir());
        assert_eq!(make(c"loop/x", Make::Directory).unwrap_err(), Errno::LOOP);
        assert_eq!(make(c"nothing", Make::Nothing).unwrap_err(), Errno::NOENT);
        assert_eq!(
            find(fd.as_fd(), c"etc/up/z", Make::Directory, true).unwrap_err(),
            Errno::LOOP
        );
        assert_eq!(
            make(c"run/a/b/c", Make::Directory).unwrap_err(),
            Errno::NOTDIR
        );
        // A directory became a symlink while the walk was below it.
        let mut walk = Walk::new(c"x").unwrap();
        walk.done.push(b"/absolute").unwrap();
        assert_eq!(walk.back(fd.as_fd()).unwrap_err(), Errno::LOOP);
    }
}
