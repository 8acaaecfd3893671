//! Walks down into a tree and up again, with one directory open at a time.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::io::{Errno, Result};

pub(crate) const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A position in a tree that other processes may be changing.
///
/// It holds two descriptors at any depth. No symlink is followed. If a directory was moved away meanwhile, it returns
/// to the deepest parent that still exists: it never leaves the tree.
#[derive(Debug)]
pub struct Descent {
    top: OwnedFd,
    here: OwnedFd,
    trail: Vec<Below>,
}

#[derive(Debug)]
struct Below {
    name: CString,
    id: Id,
}

type Id = (u64, u64);

impl Descent {
    /// Starts at a directory.
    pub fn new(top: impl AsFd) -> Result<Self> {
        Ok(Self {
            here: open(&top, c".")?,
            top: open(&top, c".")?,
            trail: Vec::new(),
        })
    }

    /// Returns the current directory.
    pub fn here(&self) -> BorrowedFd<'_> {
        self.here.as_fd()
    }

    /// Returns the number of directories from the top to this one.
    pub fn depth(&self) -> usize {
        self.trail.len()
    }

    /// Enters a subdirectory of the current one.
    pub fn enter(&mut self, name: &CStr) -> Result<()> {
        if name == c".." || name.to_bytes().contains(&b'/') {
            return Err(Errno::INVAL);
        }
        let below = open(&self.here, name)?;
        self.trail.push(Below {
            name: name.to_owned(),
            id: id(&below)?,
        });
        self.here = below;
        Ok(())
    }

    /// Returns to the parent directory, or to the deepest ancestor that was not moved: see [`depth`](Self::depth). At
    /// the top it stays.
    pub fn leave(&mut self) -> Result<()> {
        if self.trail.pop().is_none() {
            return Ok(());
        }
        let above = open(&self.here, c"..");
        if let Ok(above) = above
            && id(&above)? == self.expected()?
        {
            self.here = above;
            return Ok(());
        }
        self.here = open(&self.top, c".")?;
        for depth in 0..self.trail.len() {
            let step = &self.trail[depth];
            match open(&self.here, &step.name) {
                Ok(below) if id(&below)? == step.id => self.here = below,
                _ => {
                    self.trail.truncate(depth);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the identity of the directory at the end of the trail.
    fn expected(&self) -> Result<Id> {
        match self.trail.last() {
            Some(below) => Ok(below.id),
            None => id(&self.top),
        }
    }
}

fn open(at: impl AsFd, name: &CStr) -> Result<OwnedFd> {
    openat(at, name, DIRECTORY, Mode::empty())
}

fn id(dir: &OwnedFd) -> Result<Id> {
    let stat = fstat(dir)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_moved_out_of_the_tree_is_left_for_the_tree_again() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir_all(top.join("a/b/c/d")).unwrap();
        std::fs::create_dir_all(dir.path().join("outside")).unwrap();
        let mut place = Descent::new(std::fs::File::open(&top).unwrap()).unwrap();
        for name in [c"a", c"b", c"c", c"d"] {
            place.enter(name).unwrap();
        }
        std::fs::rename(top.join("a/b/c"), dir.path().join("outside/c")).unwrap();
        place.leave().unwrap();
        assert_eq!(place.depth(), 3, "nothing was moved between these two");
        place.leave().unwrap();
        assert_eq!(place.depth(), 2);
        let below = std::fs::metadata(top.join("a/b")).unwrap();
        let here = fstat(place.here()).unwrap();
        assert_eq!(here.st_ino, std::os::unix::fs::MetadataExt::ino(&below));

        place.enter(c"..").unwrap_err();
    }
}
