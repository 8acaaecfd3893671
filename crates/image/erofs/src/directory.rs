//! Directories as blocks of sorted entries.

use std::ops::Bound;

use crate::attributes::Kind;
use crate::format::{BLOCK, DIRENT};
use crate::tree::{Directory, NodeId, Tree};

/// The size of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Number of blocks before the last one.
    pub(crate) full: u32,
    /// Number of used bytes in the last block.
    pub(crate) last: usize,
}

impl Extent {
    pub(crate) fn size(self) -> u64 {
        u64::from(self.full) * BLOCK + self.last as u64
    }
}

/// Returns the size of a directory, which depends on its names only.
pub(crate) fn extent(id: NodeId, directory: &Directory) -> Extent {
    let (mut full, mut last) = (0, 0);
    for (name, _) in entries(id, directory) {
        let more = DIRENT + name.len();
        if last + more > BLOCK as usize {
            full += 1;
            last = 0;
        }
        last += more;
    }
    Extent { full, last }
}

/// Encodes a directory's blocks; the last one ends with its last name.
pub(crate) fn blocks(
    tree: &Tree,
    id: NodeId,
    directory: &Directory,
    mut each: impl FnMut(&[u8]) -> crate::Result<()>,
) -> crate::Result<()> {
    let mut block = Block::default();
    for (name, child) in entries(id, directory) {
        if block.used + DIRENT + name.len() > BLOCK as usize {
            each(block.encode(BLOCK as usize))?;
            block.clear();
        }
        let node = tree.get(child);
        let kind = node.kind().unwrap_or(Kind::File);
        block.push(name, node.nid(), kind);
    }
    let used = block.used;
    each(block.encode(used))
}

/// Returns all names in byte order, including `.` and `..`: the kernel uses a binary search.
fn entries(id: NodeId, directory: &Directory) -> impl Iterator<Item = (&[u8], NodeId)> {
    const SELF: &[u8] = b".";
    const PARENT: &[u8] = b"..";
    let between = move |from: Bound<&'static [u8]>, to: Bound<&'static [u8]>| {
        let range = directory.children.range::<[u8], _>((from, to));
        range.map(|(name, child)| (&**name, *child))
    };
    between(Bound::Unbounded, Bound::Excluded(SELF))
        .chain([(SELF, id)])
        .chain(between(Bound::Excluded(SELF), Bound::Excluded(PARENT)))
        .chain([(PARENT, directory.parent)])
        .chain(between(Bound::Excluded(PARENT), Bound::Unbounded))
}

/// A block under construction: entries, followed by all of their names.
#[derive(Default)]
struct Block<'a> {
    entries: Vec<(&'a [u8], u64, Kind)>,
    used: usize,
    bytes: Vec<u8>,
}

impl<'a> Block<'a> {
    fn push(&mut self, name: &'a [u8], nid: u64, kind: Kind) {
        self.entries.push((name, nid, kind));
        self.used += DIRENT + name.len();
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.used = 0;
    }

    fn encode(&mut self, length: usize) -> &[u8] {
        self.bytes.clear();
        let mut name_at = self.entries.len() * DIRENT;
        for (name, nid, kind) in &self.entries {
            self.bytes.extend(nid.to_le_bytes());
            self.bytes.extend((name_at as u16).to_le_bytes());
            self.bytes.extend([kind.file_type(), 0]);
            name_at += name.len();
        }
        for (name, ..) in &self.entries {
            self.bytes.extend(*name);
        }
        self.bytes.resize(length, 0);
        &self.bytes
    }
}
