//! Names in directories.

use std::cmp::Ordering;

use super::Kind;
use super::attributes::Node;
use super::bytes::u32_at;
use super::layout::ENTRY;
use super::read::{Damaged, Index};

/// An entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The number of its node.
    pub node: u32,
}

impl<B: AsRef<[u8]>> Index<B> {
    /// Returns the node with this name in a directory.
    pub fn lookup(&self, directory: &Node, name: &[u8]) -> Result<Option<u32>, Damaged> {
        let (mut low, mut high) = (0, count(directory));
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.named(directory, middle)?;
            match found.name.cmp(name) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Some(found.node)),
            }
        }
        Ok(None)
    }

    /// Lists the names in a directory, sorted, from a position on. Positions are numbered from 0, and do not change.
    pub fn list(
        &self,
        directory: &Node,
        from: u32,
    ) -> impl Iterator<Item = Result<Named<'_>, Damaged>> + use<'_, B> {
        let directory = *directory;
        (from..count(&directory)).map(move |at| self.named(&directory, at))
    }

    fn named(&self, directory: &Node, at: u32) -> Result<Named<'_>, Damaged> {
        let found = || {
            let at = directory.first.checked_add(at)?;
            if at >= self.layout.counts.entries {
                return None;
            }
            let bytes = self.bytes();
            let entry = self.layout.entries.start + at as usize * ENTRY;
            let (begin, end) = (u32_at(bytes, entry)?, u32_at(bytes, entry + ENTRY)?);
            let names = bytes.get(self.layout.names.clone())?;
            Some(Named {
                name: names.get(begin as usize..end as usize)?,
                node: u32_at(bytes, entry + 4)?,
            })
        };
        found().ok_or(Damaged)
    }
}

fn count(node: &Node) -> u32 {
    match node.kind {
        Kind::Directory => node.count,
        _ => 0,
    }
}
