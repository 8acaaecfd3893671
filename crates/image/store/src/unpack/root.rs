//! Where a layer is unpacked. Every path is resolved by the kernel beneath the layer's root.

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

/// Descriptors of directories kept open; entries of one directory mostly come together.
const CACHE: usize = 64;
/// Like the kernel's limit.
pub(super) const MAX_LINKS: usize = 40;
/// Components that are looked at for one entry, those of its links' targets included: more than
/// any path and a link in it can have.
pub(super) const MAX_STEPS: usize = 4096;

/// The root directory of a layer that is being unpacked.
pub(crate) struct LayerRoot {
    root: Rc<OwnedFd>,
    cache: HashMap<Vec<u8>, Rc<OwnedFd>>,
    /// Directories that the archive uses without having described them.
    implicit: BTreeSet<Vec<u8>>,
    /// Bytes of their names, also of those that were described later.
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

    /// The directory that holds `path`, made if it is missing, and the last component.
    /// `path` is clean and not the root itself.
    pub(crate) fn place<'p>(
        &mut self,
        path: &'p [u8],
    ) -> rustix::io::Result<(Rc<OwnedFd>, &'p [u8])> {
        let (parent, name) = split(path);
        Ok((self.directory(parent)?, name))
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

    /// How many directories were made unasked, and the bytes of their names.
    pub(crate) fn implicit_size(&self) -> (usize, u64) {
        (self.implicit.len(), self.implicit_bytes)
    }

    pub(crate) fn into_implicit(self) -> BTreeSet<Vec<u8>> {
        self.implicit
    }

    /// Opens a directory, made if it is missing, as are those on the way to it.
    ///
    /// Links that lead to what is not in this layer are where their targets go. Those are made
    /// one after the other from a list, never by a call within a call, and in so many steps at
    /// most: an archive decides how many components and links there are.
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
                        // A link to something that isn't in this layer: that is where it goes.
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

/// A directory on its way to being there.
struct Goal {
    /// Clean.
    path: Vec<u8>,
    /// How much of the path is there, and that part's directory.
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

    /// The next component, and where it ends in the path.
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

/// Opens a directory in another one, without following links.
fn open_child(dir: &OwnedFd, name: &[u8]) -> rustix::io::Result<Rc<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty()).map(Rc::new)
}

fn make(parent: &OwnedFd, name: &[u8]) -> rustix::io::Result<()> {
    mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    // A setgid parent or the umask must not show through.
    chownat(
        parent,
        name,
        Some(Uid::ROOT),
        Some(Gid::ROOT),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    chmodat(parent, name, Mode::from_raw_mode(0o755), AtFlags::empty())
}

/// Where the link `path`, which is `name` in `dir`, leads.
fn link_target(path: &[u8], dir: &OwnedFd, name: &[u8]) -> rustix::io::Result<Vec<u8>> {
    match readlinkat(dir, name, Vec::new()) {
        Ok(target) => Ok(follow(split(path).0, target.as_bytes())),
        Err(Errno::INVAL) => Err(Errno::NOTDIR),
        Err(error) => Err(error),
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
        // Each link leads to the next one and from there down as far as a path can go.
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
