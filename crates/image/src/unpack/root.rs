//! Where a layer is unpacked. Every path is resolved by the kernel beneath the layer's root.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid, chmodat, chownat, mkdirat, open, openat2,
    readlinkat,
};
use rustix::io::Errno;

/// Descriptors of directories kept open; entries of one directory mostly come together.
const CACHE: usize = 64;
/// Like the kernel's limit.
const MAX_LINKS: usize = 40;

/// The root directory of a layer that is being unpacked.
pub(crate) struct LayerRoot {
    root: Rc<OwnedFd>,
    cache: HashMap<Vec<u8>, Rc<OwnedFd>>,
    /// Directories that the archive uses without having described them.
    implicit: BTreeSet<Vec<u8>>,
}

impl LayerRoot {
    pub(crate) fn open(path: &Path) -> rustix::io::Result<Self> {
        let root = open(
            path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self {
            root: Rc::new(root),
            cache: HashMap::new(),
            implicit: BTreeSet::new(),
        })
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.root
    }

    /// The directory that holds `path`, made if it is missing, and the last component.
    /// `path` is clean and not the root itself.
    pub(crate) fn place<'p>(
        &mut self,
        path: &'p [u8],
    ) -> rustix::io::Result<(Rc<OwnedFd>, &'p [u8])> {
        let (parent, name) = split(path);
        Ok((self.directory(parent, MAX_LINKS)?, name))
    }

    /// Like [`Self::place`], but makes nothing.
    pub(crate) fn existing_place<'p>(
        &mut self,
        path: &'p [u8],
    ) -> rustix::io::Result<(Rc<OwnedFd>, &'p [u8])> {
        let (parent, name) = split(path);
        Ok((self.existing(parent)?, name))
    }

    /// To be called when something that may be part of a known path was replaced.
    pub(crate) fn forget_paths(&mut self) {
        self.cache.clear();
    }

    /// The archive describes this directory after all.
    pub(crate) fn explicit(&mut self, path: &[u8]) {
        self.implicit.remove(path);
    }

    pub(crate) fn implicit_len(&self) -> usize {
        self.implicit.len()
    }

    pub(crate) fn into_implicit(self) -> BTreeSet<Vec<u8>> {
        self.implicit
    }

    fn directory(&mut self, path: &[u8], links: usize) -> rustix::io::Result<Rc<OwnedFd>> {
        match self.existing(path) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
        let (parent_path, name) = split(path);
        let parent = self.directory(parent_path, links)?;
        match mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {}
            // A link to something that isn't in this layer: that is where it goes.
            Err(Errno::EXIST) if links > 0 => {
                let target = readlinkat(&parent, name, Vec::new()).map_err(|error| {
                    if error == Errno::INVAL {
                        Errno::NOTDIR
                    } else {
                        error
                    }
                })?;
                let target = follow(parent_path, target.as_bytes());
                return self.directory(&target, links - 1);
            }
            Err(Errno::EXIST) => return Err(Errno::LOOP),
            Err(error) => return Err(error),
        }
        // A setgid parent or the umask must not show through.
        chownat(
            &parent,
            name,
            Some(Uid::ROOT),
            Some(Gid::ROOT),
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
        chmodat(&parent, name, Mode::from_raw_mode(0o755), AtFlags::empty())?;
        self.implicit.insert(path.to_vec());
        self.existing(path)
    }

    fn existing(&mut self, path: &[u8]) -> rustix::io::Result<Rc<OwnedFd>> {
        if path.is_empty() {
            return Ok(Rc::clone(&self.root));
        }
        if let Some(fd) = self.cache.get(path) {
            return Ok(Rc::clone(fd));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = Rc::new(open_beneath(&*self.root, path, flags)?);
        if self.cache.len() >= CACHE {
            self.cache.clear();
        }
        self.cache.insert(path.to_vec(), Rc::clone(&fd));
        Ok(fd)
    }
}

/// Opens `path` with `root` as the root directory: links, absolute ones and `..` included,
/// stay inside.
pub(crate) fn open_beneath(
    root: impl AsFd,
    path: &[u8],
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    // A rename anywhere on the machine may disturb the resolution of "..".
    let mut tries = 0;
    loop {
        match openat2(&root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) if tries < 128 => tries += 1,
            other => return other,
        }
    }
}

/// Makes an archive's name relative and free of empty and `.` components. Refuses `..` and
/// NUL, which no honest archive has.
pub(crate) fn clean(path: &[u8]) -> Result<Cow<'_, [u8]>, &'static str> {
    if path.contains(&0) {
        return Err("its name contains a zero byte");
    }
    let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    if path.split(|byte| *byte == b'/').all(plain) {
        return Ok(Cow::Borrowed(path));
    }
    let mut cleaned = Vec::with_capacity(path.len());
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err("its name leads out of the layer with \"..\""),
            part => {
                if !cleaned.is_empty() {
                    cleaned.push(b'/');
                }
                cleaned.extend_from_slice(part);
            }
        }
    }
    Ok(Cow::Owned(cleaned))
}

/// Parent and last component of a clean path.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// Where a link in `parent` leads, as a clean path; `..` stops at the root.
fn follow(parent: &[u8], target: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let start: &[u8] = if target.starts_with(b"/") {
        b""
    } else {
        parent
    };
    for part in start
        .split(|b| *b == b'/')
        .chain(target.split(|b| *b == b'/'))
    {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_relative_and_never_lead_out() {
        for (given, expected) in [
            ("a/b", "a/b"),
            ("/a//b/", "a/b"),
            ("./a/./b", "a/b"),
            ("./", ""),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(
                &*clean(given.as_bytes()).unwrap(),
                expected.as_bytes(),
                "{given}"
            );
        }
        for given in ["..", "../a", "a/../../b", "a/..", "a\0b"] {
            assert!(clean(given.as_bytes()).is_err(), "{given}");
        }
    }

    #[test]
    fn links_are_followed_within_the_root() {
        assert_eq!(follow(b"var", b"/run"), b"run");
        assert_eq!(follow(b"var/x", b"../lib"), b"var/lib");
        assert_eq!(follow(b"", b"../../../etc"), b"etc");
    }

    #[test]
    fn missing_parents_are_made_and_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let mut root = LayerRoot::open(dir.path()).unwrap();
        root.place(b"a/b/c").unwrap();
        assert!(dir.path().join("a/b").is_dir());
        assert_eq!(
            root.into_implicit(),
            BTreeSet::from([b"a".to_vec(), b"a/b".to_vec()])
        );
    }

    #[test]
    fn links_out_of_the_layer_end_inside_it() {
        let dir = tempfile::tempdir().unwrap();
        let layer = dir.path().join("layer");
        std::fs::create_dir(&layer).unwrap();
        for (link, target) in [
            ("up", "../.."),
            ("abs", "/nowhere"),
            ("loop", "loop"),
            ("magic", "/proc/self/root"),
        ] {
            std::os::unix::fs::symlink(target, layer.join(link)).unwrap();
        }
        let mut root = LayerRoot::open(&layer).unwrap();
        for (path, ends_in) in [
            ("up/x/f", "x"),
            ("abs/f", "nowhere"),
            ("magic/f", "proc/self/root"),
        ] {
            root.place(path.as_bytes()).unwrap();
            assert!(layer.join(ends_in).is_dir(), "{path}");
        }
        assert_eq!(root.place(b"loop/f").unwrap_err(), Errno::LOOP);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
