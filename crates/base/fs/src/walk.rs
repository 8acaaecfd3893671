//! Iterates over all entries of a tree.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use rustix::io::{Errno, Result};

use crate::Descent;

/// Number of names of a directory that are read at a time.
const BATCH: usize = 1024;

/// Maximum number of kept names of all parent directories; beyond that they are read one by one.
const KEPT: usize = 64 << 10;

/// A walk through a tree of any depth and breadth, with bounded memory and descriptors.
///
/// [`next`](Self::next) returns the entries of a directory; to get those of a subdirectory, the caller
/// [enters](Self::enter) it.
#[derive(Debug)]
pub struct Walk {
    place: Descent,
    levels: Vec<Level>,
    kept: usize,
}

/// Passes every file below a directory to `each`, parents before their content, as an `O_PATH` descriptor that follows
/// no symlink. Files that are moved away meanwhile are left out. If another process replaces a file, the new one is
/// passed, but never a file outside the tree. The directory itself is left to the caller, for example to mark it as
/// done at the end.
pub fn each_below(
    top: impl AsFd,
    each: &mut dyn FnMut(BorrowedFd<'_>) -> Result<()>,
) -> Result<()> {
    let mut walk = Walk::new(top)?;
    while let Some(step) = walk.next()? {
        let Step::Entry(entry) = step else { continue };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(walk.here(), &entry.name, flags, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            file => file?,
        };
        each(file.as_fd())?;
        match walk.enter(&entry.name) {
            // Not a directory, or no longer one.
            Ok(()) | Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// A step of a walk.
#[derive(Debug)]
pub enum Step {
    /// An entry of [`Walk::here`].
    Entry(Entry),
    /// All entries of this directory were returned; it is in [`Walk::here`] now.
    Left(CString),
}

/// A name in a directory, and its file type if the file system reports it.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: CString,
    /// Its type when it was read; may be [`FileType::Unknown`].
    pub kind: FileType,
}

#[derive(Debug)]
struct Level {
    /// The name of the directory in its parent.
    name: CString,
    /// Entries that were read and not returned yet, the next one last.
    entries: Vec<Entry>,
    /// The position of the next unread entries, if there are any.
    more: Option<i64>,
}

impl Walk {
    /// Starts with the entries of a directory.
    pub fn new(top: impl AsFd) -> Result<Self> {
        let mut walk = Self {
            place: Descent::new(top)?,
            levels: Vec::new(),
            kept: 0,
        };
        walk.begin(CString::default())?;
        Ok(walk)
    }

    /// Returns the directory of the last entry.
    pub fn here(&self) -> BorrowedFd<'_> {
        self.place.here()
    }

    /// Returns the number of directories from the top to this one.
    pub fn depth(&self) -> usize {
        self.place.depth()
    }

    /// Returns the next step; `None` at the end. Files that were moved away meanwhile are left out.
    #[allow(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<Step>> {
        while let Some(level) = self.levels.last_mut() {
            if let Some(entry) = level.entries.pop() {
                self.kept -= 1;
                return Ok(Some(Step::Entry(entry)));
            }
            if let Some(from) = level.more.take() {
                let (entries, more) = self.read(Some(from))?;
                self.kept += entries.len();
                if let Some(level) = self.levels.last_mut() {
                    (level.entries, level.more) = (entries, more);
                }
                continue;
            }
            let Some(done) = self.levels.pop() else { break };
            if self.levels.is_empty() {
                break;
            }
            self.place.leave()?;
            if self.place.depth() + 1 == self.levels.len() {
                return Ok(Some(Step::Left(done.name)));
            }
            for lost in self.levels.drain(self.place.depth() + 1..) {
                self.kept -= lost.entries.len();
            }
        }
        Ok(None)
    }

    /// Enters a subdirectory of [`here`](Self::here): its entries come next.
    pub fn enter(&mut self, name: &CStr) -> Result<()> {
        self.place.enter(name)?;
        let begun = self.begin(name.to_owned());
        if begun.is_err() {
            self.place.leave()?;
        }
        begun
    }

    fn begin(&mut self, name: CString) -> Result<()> {
        let (entries, more) = self.read(None)?;
        self.kept += entries.len();
        self.levels.push(Level {
            name,
            entries,
            more,
        });
        Ok(())
    }

    /// Reads names from the start or from the end of an earlier read.
    fn read(&self, from: Option<i64>) -> Result<(Vec<Entry>, Option<i64>)> {
        let room = KEPT.saturating_sub(self.kept).clamp(1, BATCH);
        let mut dir = Dir::read_from(self.here())?;
        let mut last = from.unwrap_or(0);
        if let Some(from) = from {
            dir.seek(from)?;
        }
        let mut entries = Vec::new();
        let mut more = None;
        while let Some(entry) = dir.read() {
            let entry = match entry {
                Ok(entry) => entry,
                // The directory itself was removed.
                Err(Errno::NOENT) => break,
                Err(error) => return Err(error),
            };
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                if entries.len() == room {
                    more = Some(last);
                    break;
                }
                entries.push(Entry {
                    name: name.to_owned(),
                    kind: entry.file_type(),
                });
            }
            last = entry.offset();
        }
        entries.reverse();
        Ok((entries, more))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::path::Path;

    use super::*;

    /// Returns the names that a walk returns if it enters every directory.
    fn all(top: &Path) -> (usize, BTreeSet<CString>) {
        let mut walk = Walk::new(File::open(top).unwrap()).unwrap();
        let (mut told, mut names) = (0, BTreeSet::new());
        while let Some(step) = walk.next().unwrap() {
            let Step::Entry(entry) = step else { continue };
            told += 1;
            if entry.kind == FileType::Directory {
                walk.enter(&entry.name).unwrap();
            }
            names.insert(entry.name);
        }
        (told, names)
    }

    #[test]
    fn a_tree_nested_beyond_any_path_is_walked_on_a_small_stack() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir(&top).unwrap();
        orlop_testkit::nest(&top, 2100);
        let walked = top.clone();
        let walk = std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || all(&walked));
        assert_eq!(walk.unwrap().join().unwrap().0, 2100);
        crate::remove_tree(&top).unwrap();
    }

    #[test]
    fn a_directory_of_more_names_than_are_read_at_a_time_is_told_whole_and_once() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..BATCH * 2 + 3 {
            let path = dir.path().join(number.to_string());
            if number % 100 == 0 {
                std::fs::create_dir_all(path.join(format!("in-{number}"))).unwrap();
            } else {
                std::fs::write(path, "").unwrap();
            }
        }
        let (told, names) = all(dir.path());
        assert_eq!(told, BATCH * 2 + 3 + (BATCH * 2 + 3).div_ceil(100));
        assert_eq!(names.len(), told, "one was told twice");
    }

    #[test]
    fn what_is_left_is_told_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let mut walk = Walk::new(File::open(dir.path()).unwrap()).unwrap();
        let mut left = Vec::new();
        while let Some(step) = walk.next().unwrap() {
            match step {
                Step::Entry(entry) => walk.enter(&entry.name).unwrap(),
                Step::Left(name) => left.push((name, walk.depth())),
            }
        }
        assert_eq!(left, [(c"b".to_owned(), 1), (c"a".to_owned(), 0)]);
    }
}
