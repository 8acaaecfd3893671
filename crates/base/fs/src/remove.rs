//! Removes a directory tree of any depth, breadth and content.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, open, openat, unlinkat};
use rustix::io::{Errno, Result};

use crate::Descent;
use crate::descent::DIRECTORY;

/// Maximum number of directories of one level that are remembered.
const REMEMBERED: usize = 1024;

/// Removes a file or tree. It is not an error if it does not exist.
///
/// Symlinks above it are followed; those below it are not.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    let parent = match parent {
        here if here == Path::new("") => Path::new("."),
        parent => parent,
    };
    let above = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match open(parent, above, Mode::empty()) {
        Ok(parent) => Ok(remove_tree_at(parent, name)?),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes `name` below `parent`, a file or tree. It is not an error if it does not exist.
///
/// It is not recursive and holds three descriptors at any depth of the tree, because untrusted users can nest
/// directories freely. If another process moves a directory away meanwhile, this fails, and nothing outside the tree is
/// removed.
pub fn remove_tree_at(parent: impl AsFd, name: &OsStr) -> Result<()> {
    let parent = parent.as_fd();
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error),
    }
    let top = match openat(parent, name, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let mut place = Descent::new(top)?;
    let mut levels = vec![Level::enter(&place, CString::default())?];
    while let Some(level) = levels.last_mut() {
        if let Some(next) = level.below.pop() {
            match place.enter(&next) {
                Ok(()) => levels.push(Level::enter(&place, next)?),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
            continue;
        }
        if level.more {
            (level.below, level.more) = empty_but_directories(&place)?;
            continue;
        }
        let Some(done) = levels.pop() else { break };
        if levels.is_empty() {
            return gone(unlinkat(parent, name, AtFlags::REMOVEDIR));
        }
        place.leave()?;
        if place.depth() + 1 != levels.len() {
            // Another process moved the directory while it was being emptied.
            return Err(Errno::STALE);
        }
        gone(unlinkat(place.here(), &done.name, AtFlags::REMOVEDIR))?;
    }
    Ok(())
}

/// A directory that is being emptied.
struct Level {
    name: CString,
    /// Subdirectories that are still to be removed.
    below: Vec<CString>,
    /// Whether there may be more subdirectories than those.
    more: bool,
}

impl Level {
    fn enter(place: &Descent, name: CString) -> Result<Self> {
        let (below, more) = empty_but_directories(place)?;
        Ok(Self { name, below, more })
    }
}

fn gone(removed: Result<()>) -> Result<()> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Unlinks everything except directories. Returns their names, and whether there may be more.
fn empty_but_directories(place: &Descent) -> Result<(Vec<CString>, bool)> {
    let dir = place.here();
    let mut below = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) if below.len() == REMEMBERED => return Ok((below, true)),
            Err(Errno::ISDIR) => below.push(name.to_owned()),
            Err(error) => return Err(error),
        }
    }
    Ok((below, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_nested_beyond_any_stack_is_removed_on_a_small_one() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir(&top).unwrap();
        let innermost = orlop_testkit::nest(&top, 6_000);
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(innermost, "file", flags, Mode::RUSR).unwrap();
        let removing = top.clone();
        // A recursion of six thousand calls would not fit.
        std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || remove_tree(&removing).unwrap())
            .unwrap()
            .join()
            .unwrap();
        assert!(!top.exists());
        remove_tree(&top).unwrap();
    }

    #[test]
    fn more_directories_than_are_remembered_go_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        for i in 0..REMEMBERED * 2 + 3 {
            std::fs::create_dir_all(top.join(format!("{i}/in"))).unwrap();
        }
        remove_tree(&top).unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn links_are_removed_and_not_what_they_lead_to() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("kept");
        std::fs::create_dir_all(kept.join("in")).unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir(&top).unwrap();
        std::os::unix::fs::symlink(&kept, top.join("link")).unwrap();
        std::os::unix::fs::symlink(&kept, dir.path().join("link")).unwrap();
        remove_tree(&top).unwrap();
        remove_tree(&dir.path().join("link")).unwrap();
        assert!(kept.join("in").exists());
        assert!(!dir.path().join("link").exists());
    }

    #[test]
    fn a_file_in_the_way_of_a_directory_is_removed_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        remove_tree(&file).unwrap();
        assert!(!file.exists());
        remove_tree(&dir.path().join("none/below")).unwrap();
    }
}
