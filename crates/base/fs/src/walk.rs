//! All entries of a tree, one after the other.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use rustix::io::{Errno, Result};

use crate::Descent;

/// How many names of a directory are read at a time.
const BATCH: usize = 1024;

/// How many names of all directories above are kept; beyond that they are read one by one.
const KEPT: usize = 64 << 10;

/// A walk through a tree of any depth and breadth, whose memory and descriptors are bounded.
///
/// [`next`](Self::next) gives the entries of a directory; whoever wants those of one among them
/// [enters](Self::enter) it.
#[derive(Debug)]
pub struct Walk {
    place: Descent,
    levels: Vec<Level>,
    kept: usize,
}

/// Hands over all that is below a directory, each before what is below it, as a handle that only names it and
/// follows no link. What others move away meanwhile is left out; whatever they put in a place, what is handed over
/// is what is there, and never anything outside. The directory itself is the caller's: a mark on it that all is done
/// comes last.
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
            // No directory, or no more.
            Ok(()) | Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// What a walk has come to.
#[derive(Debug)]
pub enum Step {
    /// Something in [`Walk::here`].
    Entry(Entry),
    /// All of this directory, in [`Walk::here`] again, was told.
    Left(CString),
}

/// A name in a directory, and what it names if the file system tells.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: CString,
    /// What it was when it was read; may be [`FileType::Unknown`].
    pub kind: FileType,
}

#[derive(Debug)]
struct Level {
    /// What it is called above.
    name: CString,
    /// Read and not told yet, the next one last.
    entries: Vec<Entry>,
    /// From where on there is more to read.
    more: Option<i64>,
}

impl Walk {
    /// Begins with the entries of a directory.
    pub fn new(top: impl AsFd) -> Result<Self> {
        let mut walk = Self {
            place: Descent::new(top)?,
            levels: Vec::new(),
            kept: 0,
        };
        walk.begin(CString::default())?;
        Ok(walk)
    }

    /// The directory that the last entry is in.
    pub fn here(&self) -> BorrowedFd<'_> {
        self.place.here()
    }

    /// How many directories that one is below the top.
    pub fn depth(&self) -> usize {
        self.place.depth()
    }

    /// What comes next; none at the end. What others moved away meanwhile is left out.
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

    /// Goes into a directory in [`here`](Self::here): its entries come next.
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

    /// Reads names from the begin or from where an earlier reading ended.
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

    /// The names that a walk tells, going into every directory.
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
