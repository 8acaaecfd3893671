//! Directories of an image.

use super::bytes::{u16_at, u64_at};
use super::{Error, Inode, Reader, Result, Source};
use crate::attributes::Kind;
use crate::format::{DIRENT, NAME};

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name; `.` and `..` are included.
    pub name: Vec<u8>,
    /// The number of its inode.
    pub nid: u64,
    /// The type according to the directory.
    pub kind: Kind,
}

/// Iterator over the entries of a directory, in its order. It ends after an error.
#[derive(Debug)]
pub struct Entries<'a, S> {
    reader: &'a Reader<S>,
    directory: Inode,
    /// Offset of the next block.
    next: u64,
    block: std::vec::IntoIter<Entry>,
}

impl<S: Source> Iterator for Entries<'_, S> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.block.next() {
                return Some(Ok(entry));
            }
            if self.next >= self.directory.size() {
                return None;
            }
            match self.reader.dirents(&self.directory, self.next) {
                Ok(entries) => self.block = entries.into_iter(),
                Err(error) => {
                    self.next = u64::MAX;
                    return Some(Err(error));
                }
            }
            self.next += self.reader.block();
        }
    }
}

impl<S: Source> Reader<S> {
    /// Returns all entries of a directory.
    pub fn entries(&self, directory: &Inode) -> Result<Entries<'_, S>> {
        if directory.kind() != Kind::Directory {
            return Err(Error::Not("a directory"));
        }
        Ok(Entries {
            reader: self,
            directory: directory.clone(),
            next: 0,
            block: Vec::new().into_iter(),
        })
    }

    /// Returns the entry with a name, by a binary search like the kernel's.
    pub fn lookup(&self, directory: &Inode, name: &[u8]) -> Result<Option<Entry>> {
        if directory.kind() != Kind::Directory {
            return Err(Error::Not("a directory"));
        }
        let mut found = Vec::new();
        let (mut from, mut to) = (0, directory.size().div_ceil(self.block()));
        while from < to {
            let middle = from + (to - from) / 2;
            let entries = self.dirents(directory, middle * self.block())?;
            if entries.first().is_some_and(|first| *first.name <= *name) {
                from = middle + 1;
                found = entries;
            } else {
                to = middle;
            }
        }
        Ok(found.into_iter().find(|entry| entry.name == name))
    }

    /// Parses the entries of one block.
    fn dirents(&self, directory: &Inode, offset: u64) -> Result<Vec<Entry>> {
        const NO_NAME: Error = Error::Corrupt("a name in a directory is not valid");
        let left = directory.size().saturating_sub(offset);
        let mut bytes = vec![0; left.min(self.block()) as usize];
        self.read_content(directory, offset, &mut bytes)?;
        let names = usize::from(u16_at(&bytes, 8));
        if names < DIRENT || names % DIRENT != 0 || names > bytes.len() {
            return Err(Error::Corrupt("a block of a directory has no entries"));
        }
        let count = names / DIRENT;
        let mut entries = Vec::with_capacity(count);
        for index in 0..count {
            let at = index * DIRENT;
            let begin = usize::from(u16_at(&bytes, at + 8));
            let end = if index + 1 < count {
                usize::from(u16_at(&bytes, at + DIRENT + 8))
            } else {
                bytes.len()
            };
            let mut name = bytes.get(begin..end).ok_or(NO_NAME)?;
            if index + 1 == count {
                // The last name may be followed by zeros.
                name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            }
            let is_bad = name.is_empty()
                || begin < names
                || name.len() > NAME
                || name.iter().any(|byte| matches!(byte, 0 | b'/'));
            if is_bad {
                return Err(NO_NAME);
            }
            entries.push(Entry {
                name: name.to_vec(),
                nid: u64_at(&bytes, at),
                kind: Kind::of_file_type(bytes[at + 10])
                    .ok_or(Error::Corrupt("a directory entry has an unknown type"))?,
            });
        }
        Ok(entries)
    }
}
