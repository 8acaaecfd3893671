//! Finding, and where it is missing making, what something is mounted on: below the root whatever
//! links say, one descriptor after the other, no path looked up twice.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, readlinkat_raw,
};
use rustix::io::{Errno, Result, dup};

/// How many links may be met on the way, as the kernel has it.
const LINKS: u32 = 40;

/// What is made where nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    Nothing,
    Directory,
    File,
}

/// Opens what a path below `root` names, as a descriptor that only names it. `plain` is refused
/// a link anywhere.
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
        // Something moves in the tree: looked at step by step it is found.
        Err(Errno::AGAIN) => Walk::new(path)?.go(root, make, plain),
        found => found,
    }
}

/// Text of a bounded length that needs no memory.
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
        // The last one is for the end.
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

/// A way through a tree, a name at a time.
struct Walk {
    /// What is still to go.
    rest: Text,
    /// Where `rest` begins.
    at: usize,
    /// Where we are, without links.
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

    /// The next name.
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

    /// Goes on with what a link says; whether that begins at the root.
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

    /// The directory that was come to, from the root again: where `..` leads is nobody's to say who
    /// moves directories about.
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

/// What has this name, be it a link; what is mounted on it where something is.
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
        // A directory that became a link while what is in it was looked at.
        let mut walk = Walk::new(c"x").unwrap();
        walk.done.push(b"/absolute").unwrap();
        assert_eq!(walk.back(fd.as_fd()).unwrap_err(), Errno::LOOP);
    }
}
