//! Check of a complete image before the kernel mounts it.

use std::collections::{HashMap, HashSet};

use super::inode::Layout;
use super::{Entry, Error, Inode, Reader, Result, Source};
use crate::attributes::{Kind, Xattrs};

/// Limits above which an image is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of names in its directories.
    pub entries: u64,
    /// Maximum number of chunks of its files.
    pub chunks: u64,
    /// Maximum number of bytes of extended attributes, counted per inode.
    pub xattr_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 4_000_000,
            chunks: 64_000_000,
            xattr_bytes: 256 << 20,
        }
    }
}

/// Counts of an image's contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Number of names in its directories, without `.` and `..`.
    pub entries: u64,
    /// Number of inodes with such a name, and the root.
    pub inodes: u64,
    /// Number of chunks of its files, including holes.
    pub chunks: u64,
    /// Number of bytes of extended attributes, counted per inode.
    pub xattr_bytes: u64,
}

impl<S: Source> Reader<S> {
    /// Checks the complete tree. Directories must be sorted, refer to their parents and have one name each. Entries
    /// must have the right types, link counts must be right, and all contents and attributes must be within the
    /// image.
    pub fn check(&self, limits: Limits) -> Result<Census> {
        self.check_each(limits, &mut |_, _| Ok(()))
    }

    /// Checks the tree like [`Self::check`], with an additional check of each inode.
    pub fn check_each(
        &self,
        limits: Limits,
        judge: &mut dyn FnMut(&Inode, &Xattrs) -> Result<()>,
    ) -> Result<Census> {
        let root = self.root()?;
        let mut walk = Walk {
            reader: self,
            limits,
            judge,
            census: Census::default(),
            directories: HashSet::from([root.nid]),
            links: HashMap::new(),
            pending: vec![(root.nid, root.nid)],
        };
        walk.inode(&root)?;
        while let Some((nid, parent)) = walk.pending.pop() {
            walk.directory(nid, parent)?;
        }
        if walk.links.values().all(|(said, found)| said == found) {
            Ok(walk.census)
        } else {
            Err(Error::Corrupt("the link count of an inode is wrong"))
        }
    }
}

/// The state of the check.
struct Walk<'a, S> {
    reader: &'a Reader<S>,
    limits: Limits,
    judge: &'a mut dyn FnMut(&Inode, &Xattrs) -> Result<()>,
    census: Census,
    /// Directories that have a name.
    directories: HashSet<u64>,
    /// Other inodes: the link count in the inode, and the number of names found.
    links: HashMap<u64, (u32, u32)>,
    /// Directories to check, with their parents.
    pending: Vec<(u64, u64)>,
}

impl<S: Source> Walk<'_, S> {
    fn directory(&mut self, nid: u64, parent: u64) -> Result<()> {
        let directory = self.reader.inode(nid)?;
        let (mut former, mut special) = (Vec::new(), 0);
        for entry in self.reader.entries(&directory)? {
            let entry = entry?;
            if entry.name <= former {
                return Err(Error::Corrupt("a directory is not sorted"));
            }
            let expected = match &entry.name[..] {
                b"." => Some(nid),
                b".." => Some(parent),
                _ => None,
            };
            match expected {
                Some(expected) if entry.nid == expected => special += 1,
                Some(_) => {
                    return Err(Error::Corrupt(
                        "the \".\" or \"..\" entry of a directory is wrong",
                    ));
                }
                None => self.entry(&entry, nid)?,
            }
            former = entry.name;
        }
        match special {
            2 => Ok(()),
            _ => Err(Error::Corrupt("a directory has no \".\" or \"..\" entry")),
        }
    }

    fn entry(&mut self, entry: &Entry, parent: u64) -> Result<()> {
        self.census.entries += 1;
        if self.census.entries > self.limits.entries {
            return Err(Error::TooMany(self.limits.entries, "entries"));
        }
        if let Some((said, found)) = self.links.get_mut(&entry.nid) {
            *found += 1;
            let kind = self.reader.inode(entry.nid)?.kind();
            return if *found <= *said && kind == entry.kind {
                Ok(())
            } else {
                Err(Error::Corrupt("the link count of an inode is wrong"))
            };
        }
        let inode = self.reader.inode(entry.nid)?;
        if inode.kind() != entry.kind {
            return Err(Error::Corrupt("the type of a directory entry is wrong"));
        }
        if inode.kind() != Kind::Directory {
            self.links.insert(entry.nid, (inode.links(), 1));
        } else if self.directories.insert(entry.nid) {
            self.pending.push((entry.nid, parent));
        } else {
            return Err(Error::Corrupt("a directory is hard linked"));
        }
        self.inode(&inode)
    }

    fn inode(&mut self, inode: &Inode) -> Result<()> {
        self.census.inodes += 1;
        let xattrs = self.reader.xattrs(inode)?;
        for (name, value) in &xattrs {
            self.census.xattr_bytes += (name.len() + value.len()) as u64;
        }
        if self.census.xattr_bytes > self.limits.xattr_bytes {
            let limit = self.limits.xattr_bytes;
            return Err(Error::TooMany(limit, "bytes of extended attributes"));
        }
        (self.judge)(inode, &xattrs)?;
        if inode.kind() == Kind::Symlink {
            let target = self.reader.target(inode)?;
            if target.is_empty() || target.contains(&0) {
                return Err(Error::Corrupt(
                    "the target of a symbolic link is empty or contains a NUL byte",
                ));
            }
        }
        if matches!(inode.layout, Layout::Chunks { .. }) {
            let mut offset = 0;
            while offset < inode.size() {
                self.census.chunks += 1;
                if self.census.chunks > self.limits.chunks {
                    return Err(Error::TooMany(self.limits.chunks, "chunks"));
                }
                offset += self.reader.part(inode, offset)?.length;
            }
        }
        Ok(())
    }
}
