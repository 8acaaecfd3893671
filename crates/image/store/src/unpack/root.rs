//! The root directory of a layer during unpacking. The kernel resolves every path beneath it.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid, chmodat, chownat, mkdirat, open, openat,
    openat2, readlinkat,
};
use rustix::io::Errno;

/// Number of cached directory descriptors. Consecutive entries are mostly in the same directory.
const CACHE: usize = 64;
/// Maximum number of links in a path, as in the kernel.
pub(super) const MAX_LINKS: usize = 40;
/// Maximum number of path components per entry, including the targets of its links. No path with one link needs as
/// many.
pub(super) const MAX_STEPS: usize = 4096;

/// The root directory of a layer that is being unpacked.
pub(crate) struct LayerRoot {
    root: Rc<OwnedFd>,
    cache: HashMap<Vec<u8>, Rc<OwnedFd>>,
    /// Directories that the archive uses without describing them.
    implicit: BTreeSet<Vec<u8>>,
    /// Size of their names in bytes, including those that were described later.
    implicit_bytes: u64,
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
            implicit_bytes: 0,
        })
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.root
    }

    /// Returns the directory that holds `path`, created if it is missing, and the last component. `path` is clean and
    /// not the root itself.
    pub(crate) fn place<'p>(
        &mut self,
        path: &'p [u8],
    ) -> rustix::io::Result<(Rc<OwnedFd>, &'p [u8])> {
        let (parent, name) = split(path);
        Ok((self.directory(parent)?, name))
    }

    /// Like [`Self::place`], but creates nothing.
    pub(crate) fn existing_place<'p>(
        &mut self,
        path: &'p [u8],
    ) -> rustix::io::Result<(Rc<OwnedFd>, &'p [u8])> {
        let (parent, name) = split(path);
        Ok((self.existing(parent)?, name))
    }

    /// Clears the cache, because an entry that may be part of a cached path was replaced.
    pub(crate) fn forget_paths(&mut self) {
        self.cache.clear();
    }

    /// Removes a directory from the undescribed ones, because the archive describes it later.
    pub(crate) fn explicit(&mut self, path: &[u8]) {
        self.implicit.remove(path);
    }

    /// Returns the number of undescribed directories, and the size of their names.
    pub(crate) fn implicit_size(&self) -> (usize, u64) {
        (self.implicit.len(), self.implicit_bytes)
    }

    pub(crate) fn into_implicit(self) -> BTreeSet<Vec<u8>> {
        self.implicit
    }

    /// Opens a directory, and creates it and its missing parents.
    ///
    /// If a link points to a directory that is missing in this layer, that directory is created. This uses a list
    /// instead of recursion, and a limited number of steps, because an untrusted archive controls the number of
    /// components and links.
    fn directory(&mut self, path: &[u8]) -> rustix::io::Result<Rc<OwnedFd>> {
        match self.existing(path) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
        let mut goals = vec![Goal::new(path.to_vec(), &self.root)];
        let mut steps = 0;
        loop {
            let depth = goals.len();
            let Some(goal) = goals.last_mut() else { break };
            let Some((name, end)) = goal.next() else {
                goals.pop();
                continue;
            };
            steps += 1;
            if steps > MAX_STEPS {
                return Err(Errno::LOOP);
            }
            match open_child(&goal.dir, &name) {
                Ok(dir) => goal.enter(dir, end),
                Err(Errno::NOENT) => {
                    make(&goal.dir, &name)?;
                    let dir = open_child(&goal.dir, &name)?;
                    goal.enter(dir, end);
                    let made = goal.path[..end].to_vec();
                    self.implicit_bytes += made.len() as u64;
                    self.implicit.insert(made);
                }
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let here = goal.path[..end].to_vec();
                    match self.existing(&here) {
                        Ok(dir) => goal.enter(dir, end),
                        // The target of the link is missing in this layer: create it.
                        Err(Errno::NOENT) if depth <= MAX_LINKS => {
                            let target = link_target(&here, &goal.dir, &name)?;
                            goals.push(Goal::new(target, &self.root));
                        }
                        Err(Errno::NOENT) => return Err(Errno::LOOP),
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
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

/// A directory that is being created.
struct Goal {
    /// The normalized path.
    path: Vec<u8>,
    /// Length of the existing part of the path, and the directory at its end.
    done: usize,
    dir: Rc<OwnedFd>,
}

impl Goal {
    fn new(path: Vec<u8>, root: &Rc<OwnedFd>) -> Self {
        Self {
            path,
            done: 0,
            dir: Rc::clone(root),
        }
    }

    /// Returns the next component and the offset of its end in the path.
    fn next(&self) -> Option<(Vec<u8>, usize)> {
        let start = match self.done {
            0 => 0,
            done => done + 1,
        };
        let rest = self.path.get(start..).filter(|rest| !rest.is_empty())?;
        let length = rest.iter().position(|byte| *byte == b'/');
        let name = &rest[..length.unwrap_or(rest.len())];
        Some((name.to_vec(), start + name.len()))
    }

    fn enter(&mut self, dir: Rc<OwnedFd>, end: usize) {
        self.dir = dir;
        self.done = end;
    }
}

/// Opens a subdirectory without following links.
fn open_child(dir: &OwnedFd, name: &[u8]) -> rustix::io::Result<Rc<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty()).map(Rc::new)
}

fn make(parent: &OwnedFd, name: &[u8]) -> rustix::io::Result<()> {
    mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    // A setgid parent and the umask must not affect the directory.
    chownat(
        parent,
        name,
        Some(Uid::ROOT),
        Some(Gid::ROOT),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    chmodat(parent, name, Mode::from_raw_mode(0o755), AtFlags::empty())
}

/// Returns the path that the link `path`, which is `name` in `dir`, points to.
fn link_target(path: &[u8], dir: &OwnedFd, name: &[u8]) -> rustix::io::Result<Vec<u8>> {
    match readlinkat(dir, name, Vec::new()) {
        Ok(target) => Ok(follow(split(path).0, target.as_bytes())),
        Err(Errno::INVAL) => Err(Errno::NOTDIR),
        Err(error) => Err(error),
    }
}

/// Opens `path` with `root` as the root directory: absolute links and `..` cannot lead outside.
pub(crate) fn open_beneath(
    root: impl AsFd,
    path: &[u8],
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    // Any concurrent rename on the machine may interrupt the resolution of "..".
    let mut tries = 0;
    loop {
        match openat2(&root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) if tries < 128 => tries += 1,
            other => return other,
        }
    }
}

/// Makes a path of an archive relative and removes empty and `.` components. Refuses `..` and NUL, which no valid
/// archive contains.
pub(crate) fn clean(path: &[u8]) -> Result<Cow<'_, [u8]>, &'static str> {
    if path.contains(&0) {
        return Err("its name contains a NUL byte");
    }
    let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    if path.split(|byte| *byte == b'/').all(plain) {
        return Ok(Cow::Borrowed(path));
    }
    let mut cleaned = Vec::with_capacity(path.len());
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err("its name contains \"..\", which leads out of the layer"),
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

/// Splits a clean path into parent and last component.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// Returns the target of a link in `parent` as a clean path; `..` stops at the root.
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
    use std::path::PathBuf;

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
    fn links_and_components_without_end_overflow_no_stack() {
        let dir = tempfile::tempdir().unwrap();
        // Each link leads to the next one, and continues with a path of maximum length.
        let deep = "/x".repeat(2040);
        for n in 0..39 {
            let target = format!("l{}{deep}", n + 1);
            std::os::unix::fs::symlink(target, dir.path().join(format!("l{n}"))).unwrap();
        }
        let layer = dir.path().to_owned();
        let refused = std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || {
                let mut root = LayerRoot::open(&layer).unwrap();
                root.place(b"l0/f").map(drop)
            })
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(refused, Err(Errno::LOOP));
    }

    #[test]
    fn a_chain_of_links_out_of_the_layer_is_made_where_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..20 {
            let target = format!("l{}/d{n}", n + 1);
            std::os::unix::fs::symlink(target, dir.path().join(format!("l{n}"))).unwrap();
        }
        let mut root = LayerRoot::open(dir.path()).unwrap();
        let (_, name) = root.place(b"l0/a/f").unwrap();
        assert_eq!(name, b"f");
        let down = (0..20).rev().map(|n| format!("d{n}"));
        let end = dir.path().join("l20").join(down.collect::<PathBuf>());
        assert!(end.join("a").is_dir());
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
