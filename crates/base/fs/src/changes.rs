//! Changes of a container to its root file system: its writable layer compared with the layers below it.
//!
//! The container keeps writing meanwhile and controls all names: no symlink is followed, and files that vanish are left
//! out. Directories that were renamed as a whole with overlayfs's `redirect_dir` count as added.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::Descent;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fgetxattr, open, openat, openat2,
    statat,
};
use rustix::io::Errno;

/// A directory with a longer path is reported but not searched, because its files cannot be named. A caller that needs
/// all files fails to open that directory.
const MAX_PATH: usize = 4096;

/// The maximum number of entries of a directory and its parents: they are sorted in memory.
const MAX_ENTRIES: usize = 1 << 20;

/// Prefixes of overlayfs's extended attributes; the second is used in user namespaces.
const MARKS: [&str; 2] = ["trusted.overlay.", "user.overlay."];

/// A file that a container changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Absolute path in the container.
    pub path: PathBuf,
    /// The kind of change.
    pub kind: ChangeKind,
    /// Mode as in stat(2), including the type; zero for deleted files.
    pub mode: u32,
    /// Size of a regular file.
    pub size: u64,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The file existed before.
    Modified,
    /// The file is new.
    Added,
    /// The file was removed.
    Deleted,
}

/// Compares a writable layer with the layers below it, top first. Passes each change to `tell` in path order, until
/// that returns `false`.
pub fn changes(
    upper: &Path,
    lower: &[PathBuf],
    tell: &mut dyn FnMut(Change) -> bool,
) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let roots = lower
        .iter()
        .map(|layer| Ok(open(layer, flags, Mode::empty())?))
        .collect::<io::Result<Vec<_>>>()?;
    let top = open(upper, flags, Mode::empty())?;
    let mut walk = Walk {
        roots,
        tell,
        kept: 0,
    };
    walk.all(&top)
}

struct Walk<'a> {
    roots: Vec<OwnedFd>,
    tell: &'a mut dyn FnMut(Change) -> bool,
    /// The number of names kept by all levels.
    kept: usize,
}

/// A directory of the writable layer that is being searched.
struct Level {
    /// The remaining names, the next one last; each with whether it belongs to the writable layer.
    names: Vec<(CString, bool)>,
    /// The lower layers that have the directory, too.
    below: Vec<usize>,
}

impl Walk<'_> {
    /// Searches the writable layer. It is not recursive and holds few descriptors, however deep the container nests
    /// directories.
    fn all(&mut self, top: &OwnedFd) -> io::Result<()> {
        let mut place = Descent::new(top)?;
        let mut path = PathBuf::new();
        let below = (0..self.roots.len()).collect();
        let mut levels = vec![self.level(&place, &path, below)?];
        while let Some(level) = levels.last_mut() {
            let Some((name, own)) = level.names.pop() else {
                levels.pop();
                place.leave()?;
                // Other directories may have been moved away with it.
                for lost in levels.drain((place.depth() + 1).min(levels.len())..) {
                    self.kept -= lost.names.len();
                }
                while path.components().count() > place.depth() {
                    path.pop();
                }
                continue;
            };
            self.kept -= 1;
            path.push(OsStr::from_bytes(name.to_bytes()));
            let next = if own {
                self.entry(place.here(), &name, &path, &level.below)
            } else if self.exists(&level.below, &path) {
                Next::or_end(self.deleted(&path))
            } else {
                Next::Sibling
            };
            match next {
                Next::End => return Ok(()),
                Next::Into if place.enter(&name).is_ok() => {
                    let below = self.having(&level.below, &path);
                    levels.push(self.level(&place, &path, below)?);
                }
                Next::Into | Next::Sibling => {
                    path.pop();
                }
            }
        }
        Ok(())
    }

    /// Starts the search of a directory.
    fn level(&mut self, place: &Descent, path: &Path, below: Vec<usize>) -> io::Result<Level> {
        let own = names(place.here(), self.kept)?;
        let mut all: Vec<(CString, bool)> = own.into_iter().map(|name| (name, true)).collect();
        if is_opaque(place.here()) {
            // All of the lower layers is deleted, except what was created again.
            for layer in &below {
                let hidden = self.names_below(*layer, path, self.kept + all.len())?;
                all.extend(hidden.into_iter().map(|name| (name, false)));
            }
        }
        // Of two equal names that of the writable layer comes first.
        all.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        all.dedup_by(|a, b| a.0 == b.0);
        all.reverse();
        self.kept += all.len();
        Ok(Level { names: all, below })
    }

    fn entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        path: &Path,
        below: &[usize],
    ) -> Next {
        let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Next::Sibling;
        };
        if is_whiteout(directory, name, &stat) {
            return Next::or_end(self.deleted(path));
        }
        let kind = if self.exists(below, path) {
            ChangeKind::Modified
        } else {
            ChangeKind::Added
        };
        let file_type = FileType::from_raw_mode(stat.st_mode);
        let change = Change {
            path: Path::new("/").join(path),
            kind,
            mode: stat.st_mode,
            size: match file_type {
                FileType::RegularFile => u64::try_from(stat.st_size).unwrap_or(0),
                _ => 0,
            },
        };
        if !(self.tell)(change) {
            return Next::End;
        }
        if file_type == FileType::Directory && path.as_os_str().len() < MAX_PATH {
            return Next::Into;
        }
        Next::Sibling
    }

    fn deleted(&mut self, path: &Path) -> bool {
        (self.tell)(Change {
            path: Path::new("/").join(path),
            kind: ChangeKind::Deleted,
            mode: 0,
            size: 0,
        })
    }

    /// Returns whether the lower layers show a file at this path.
    fn exists(&self, below: &[usize], path: &Path) -> bool {
        for layer in below {
            match self.look(*layer, path) {
                Some(Found::Whiteout) => return false,
                Some(_) => return true,
                None => {}
            }
        }
        false
    }

    /// Returns the layers whose directory at this path is visible.
    fn having(&self, below: &[usize], path: &Path) -> Vec<usize> {
        let mut having = Vec::new();
        for layer in below {
            match self.look(*layer, path) {
                None => {}
                Some(Found::Directory { opaque }) => {
                    having.push(*layer);
                    if opaque {
                        break;
                    }
                }
                Some(Found::Whiteout | Found::Other) => break,
            }
        }
        having
    }

    /// Looks up a path in a layer, without following symlinks.
    fn look(&self, layer: usize, path: &Path) -> Option<Found> {
        let root = self.roots.get(layer)?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let name = CString::new(path.file_name()?.as_bytes()).ok()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened;
        let directory = match parent {
            Some(parent) => {
                opened = openat2(root, parent, flags, Mode::empty(), resolve).ok()?;
                &opened
            }
            None => root,
        };
        let stat = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if is_whiteout(directory, &name, &stat) {
            return Some(Found::Whiteout);
        }
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Some(Found::Other);
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opaque = openat(directory, &name, flags, Mode::empty()).is_ok_and(is_opaque);
        Some(Found::Directory { opaque })
    }

    fn names_below(&self, layer: usize, path: &Path, kept: usize) -> io::Result<Vec<CString>> {
        let Some(root) = self.roots.get(layer) else {
            return Ok(Vec::new());
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let path = if path == Path::new("") {
            Path::new(".")
        } else {
            path
        };
        match openat2(root, path, flags, Mode::empty(), resolve) {
            Ok(directory) => names(&directory, kept),
            Err(_) => Ok(Vec::new()),
        }
    }
}

/// The next step of a walk.
enum Next {
    Into,
    Sibling,
    End,
}

impl Next {
    fn or_end(go_on: bool) -> Self {
        if go_on { Self::Sibling } else { Self::End }
    }
}

/// The type of a file in a layer.
enum Found {
    Directory { opaque: bool },
    Whiteout,
    Other,
}

/// Returns the names in a directory; `kept` counts those kept for other directories.
fn names(directory: impl AsFd, kept: usize) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)?.flatten() {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if kept + names.len() >= MAX_ENTRIES {
            return Err(io::Error::other(format!(
                "a directory and its parents have more than {MAX_ENTRIES} entries"
            )));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// Returns whether it is a whiteout: a character device 0/0, or an empty file with an attribute (since Linux 6.7, where
/// devices cannot be made).
fn is_whiteout(directory: impl AsFd, name: &CStr, stat: &Stat) -> bool {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => stat.st_rdev == 0,
        FileType::RegularFile if stat.st_size == 0 => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            openat(directory, name, flags, Mode::empty())
                .is_ok_and(|file| mark(&file, "whiteout").is_some())
        }
        _ => false,
    }
}

/// Returns whether a directory hides those of the lower layers.
fn is_opaque(directory: impl AsFd) -> bool {
    mark(directory, "opaque") == Some(b'y')
}

/// Returns the first byte of an overlayfs attribute; zero if it is empty.
fn mark(file: impl AsFd, name: &str) -> Option<u8> {
    for prefix in MARKS {
        let mut value = [0; 8];
        match fgetxattr(&file, format!("{prefix}{name}"), &mut value) {
            Ok(_) | Err(Errno::RANGE) => return Some(value[0]),
            Err(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, XattrFlags, mknodat, setxattr};

    use super::*;

    struct Layers {
        dir: tempfile::TempDir,
    }

    impl Layers {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for layer in ["upper", "top", "bottom"] {
                fs::create_dir(dir.path().join(layer)).unwrap();
            }
            Self { dir }
        }

        fn path(&self, path: &str) -> PathBuf {
            self.dir.path().join(path)
        }

        fn file(&self, path: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }

        fn whiteout(&self, path: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
        }

        fn changes(&self) -> Vec<String> {
            let mut found = Vec::new();
            let lower = [self.path("top"), self.path("bottom")];
            changes(&self.path("upper"), &lower, &mut |change| {
                let kind = match change.kind {
                    ChangeKind::Modified => 'C',
                    ChangeKind::Added => 'A',
                    ChangeKind::Deleted => 'D',
                };
                found.push(format!("{kind} {}", change.path.display()));
                true
            })
            .unwrap();
            found
        }
    }

    #[test]
    fn added_modified_and_deleted_things_are_told_apart() {
        orlop_testkit::skip_unless!(orlop_testkit::machine::is_root());
        let layers = Layers::new();
        for path in [
            "bottom/etc/passwd",
            "bottom/etc/old",
            "bottom/bin/sh",
            "top/etc/hosts",
        ] {
            layers.file(path);
        }
        for path in [
            "upper/etc/passwd",
            "upper/etc/new",
            "upper/etc/hosts",
            "upper/data/a",
        ] {
            layers.file(path);
        }
        layers.whiteout("upper/etc/old");
        assert_eq!(
            layers.changes(),
            [
                "A /data",
                "A /data/a",
                "C /etc",
                "C /etc/hosts",
                "A /etc/new",
                "D /etc/old",
                "C /etc/passwd",
            ]
        );
    }

    #[test]
    fn what_a_middle_layer_deleted_was_not_there() {
        orlop_testkit::skip_unless!(orlop_testkit::machine::is_root());
        let layers = Layers::new();
        layers.file("bottom/a");
        layers.file("bottom/dir/b");
        layers.file("upper/a");
        layers.file("upper/dir/b");
        layers.whiteout("top/a");
        layers.whiteout("top/dir");
        assert_eq!(layers.changes(), ["A /a", "A /dir", "A /dir/b"]);
    }

    #[test]
    fn a_directory_made_anew_has_lost_what_it_had() {
        orlop_testkit::skip_unless!(orlop_testkit::machine::is_root());
        let layers = Layers::new();
        layers.file("bottom/dir/gone");
        layers.file("bottom/dir/kept");
        layers.file("upper/dir/kept");
        setxattr(
            layers.path("upper/dir"),
            "trusted.overlay.opaque",
            b"y",
            XattrFlags::empty(),
        )
        .unwrap();
        assert_eq!(layers.changes(), ["C /dir", "D /dir/gone", "C /dir/kept"]);
    }

    #[test]
    fn links_lead_nowhere_and_the_listener_may_stop() {
        let layers = Layers::new();
        layers.file("outside/secret");
        symlink(layers.path("outside"), layers.path("upper/link")).unwrap();
        // The image has a symlink where the container has a directory.
        symlink(layers.path("outside"), layers.path("bottom/dir")).unwrap();
        layers.file("upper/dir/secret");
        assert_eq!(
            layers.changes(),
            ["C /dir", "A /dir/secret", "A /link"],
            "the link's target is not the container's"
        );
        let mut told = 0;
        changes(&layers.path("upper"), &[], &mut |_| {
            told += 1;
            false
        })
        .unwrap();
        assert_eq!(told, 1);
    }
    #[test]
    fn directories_beyond_any_path_take_neither_stack_nor_descriptors() {
        let layers = Layers::new();
        orlop_testkit::nest(&layers.path("upper"), 2100);
        layers.file("upper/z");
        let upper = layers.path("upper");
        let walked = std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || {
                let mut told = Vec::new();
                let open_files = || fs::read_dir("/proc/self/fd").unwrap().count();
                let before = open_files();
                let mut most = 0;
                changes(&upper, &[], &mut |change| {
                    told.push(change.path);
                    if told.len() == 1000 {
                        most = open_files();
                    }
                    true
                })
                .unwrap();
                // Other tests have files open at the same time.
                (told, most.saturating_sub(before))
            });
        let (told, more) = walked.unwrap().join().unwrap();
        assert_eq!(told.len(), 2050, "as many as have a path, and the file");
        assert_eq!(told.last().unwrap(), Path::new("/z"));
        assert!(more < 500, "{more} descriptors");
        crate::remove_tree(&layers.path("upper")).unwrap();
    }
}
