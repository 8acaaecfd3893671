//! Removing a directory tree of any depth and content.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, unlinkat};
use rustix::io::{Errno, Result};

/// Removes `name` below `parent`, whatever it is. It is no error if there is nothing.
///
/// Holds one descriptor however deep the tree is: layers come from strangers, and nesting is
/// free for them.
pub(crate) fn remove_tree(parent: impl AsFd, name: &[u8]) -> Result<()> {
    let parent = parent.as_fd();
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error),
    }
    // Each level: the name of the directory we are in, and its subdirectories yet to remove.
    let mut here = open_dir(parent, name)?;
    let mut levels = vec![(
        CString::new(name).map_err(|_| Errno::INVAL)?,
        empty_but_dirs(&here)?,
    )];
    while let Some((name, subdirs)) = levels.last_mut() {
        if let Some(next) = subdirs.pop() {
            here = open_dir(&here, next.as_bytes())?;
            let found = empty_but_dirs(&here)?;
            levels.push((next, found));
            continue;
        }
        let name = std::mem::take(name);
        levels.pop();
        if levels.is_empty() {
            return unlinkat(parent, &name, AtFlags::REMOVEDIR);
        }
        here = openat(&here, "..", DIR_FLAGS, Mode::empty())?;
        unlinkat(&here, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

const DIR_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

fn open_dir(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd> {
    openat(parent, name, DIR_FLAGS, Mode::empty())
}

/// Unlinks everything but directories, whose names it returns.
fn empty_but_dirs(dir: &OwnedFd) -> Result<Vec<CString>> {
    let mut subdirs = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => subdirs.push(name.to_owned()),
            Err(error) => return Err(error),
        }
    }
    Ok(subdirs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;

    #[test]
    fn trees_deeper_than_any_path_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let top = rustix::fs::open(dir.path(), DIR_FLAGS, Mode::empty()).unwrap();
        let mut here = top.try_clone().unwrap();
        for _ in 0..900 {
            mkdirat(&here, "deep", Mode::RWXU).unwrap();
            mkdirat(&here, "side", Mode::RWXU).unwrap();
            here = open_dir(&here, b"deep").unwrap();
        }
        drop(here);
        remove_tree(&top, b"deep").unwrap();
        assert!(!dir.path().join("deep").exists());
        remove_tree(&top, b"deep").unwrap();
    }
}
