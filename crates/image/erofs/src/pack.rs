//! Placement of inodes: in separate blocks between the contents.
//!
//! An inode is written when its file is complete, with the content if that is small. So neither stays in memory, and
//! the number of small files has no limit. Blocks for inodes are reserved in packs, and only the current pack is in
//! memory.

use crate::error::Result;
use crate::format::{BLOCK, SLOT};
use crate::stream::Stream;

/// Maximum number of blocks per pack. The first pack has one, and each has twice as many as the previous one, so that
/// an image of one file has no empty blocks.
const BLOCKS: usize = 16;

/// Allocator of positions. It is deterministic: the same lengths in the same order get the same positions.
#[derive(Debug, Clone)]
pub(crate) struct Placer {
    base: u64,
    /// Number of used bytes in each block of the pack.
    taken: Vec<u64>,
    /// Number of blocks of the next pack.
    next: usize,
}

impl Placer {
    pub(crate) fn new() -> Self {
        Self {
            base: 0,
            taken: Vec::new(),
            next: 1,
        }
    }

    /// Returns the position of a record, in a block with enough space, so that no record crosses a block's end. If no
    /// block has space, the record goes to `end`, a block boundary. A record that is longer than a block gets
    /// separate blocks.
    pub(crate) fn place(&mut self, length: u64, end: &mut u64) -> u64 {
        let length = length.next_multiple_of(SLOT);
        if length > BLOCK {
            let place = *end;
            *end += length.next_multiple_of(BLOCK);
            return place;
        }
        let fits = |taken: &u64| taken + length <= BLOCK;
        let index = self.taken.iter().position(fits).unwrap_or_else(|| {
            self.base = *end;
            *end += self.next as u64 * BLOCK;
            self.taken = vec![0; self.next];
            self.next = (self.next * 2).min(BLOCKS);
            0
        });
        let place = self.base + index as u64 * BLOCK + self.taken[index];
        self.taken[index] += length;
        place
    }
}

/// The inodes with a position, of which the last are still in memory.
#[derive(Debug)]
pub(crate) struct Packs {
    placer: Placer,
    pack: Vec<u8>,
}

impl Packs {
    pub(crate) fn new() -> Self {
        Self {
            placer: Placer::new(),
            pack: Vec::new(),
        }
    }

    /// Returns a copy of the allocator, which will return the same positions as this one.
    pub(crate) fn placer(&self) -> Placer {
        self.placer.clone()
    }

    /// Stores a record; returns its position.
    pub(crate) fn put(&mut self, record: &[u8], stream: &mut Stream) -> Result<u64> {
        let begin = stream.position().next_multiple_of(BLOCK);
        let (mut end, former) = (begin, self.placer.base);
        let place = self.placer.place(record.len() as u64, &mut end);
        if self.placer.base != former {
            stream.fill(&self.pack, former)?;
            self.pack.clear();
            self.pack.resize((end - begin) as usize, 0);
        }
        if end != begin {
            let position = stream.position();
            stream.skip(end - position)?;
        }
        let in_pack = place
            .checked_sub(self.placer.base)
            .and_then(|at| self.pack.get_mut(at as usize..at as usize + record.len()));
        match in_pack {
            Some(bytes) => bytes.copy_from_slice(record),
            None => stream.fill(record, place)?,
        }
        Ok(place)
    }

    /// Writes the pack that is in memory.
    pub(crate) fn end(&mut self, stream: &mut Stream) -> Result<()> {
        let pack = std::mem::take(&mut self.pack);
        stream.fill(&pack, self.placer.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_record_crosses_a_block_or_another() {
        let mut placer = Placer::new();
        let mut end = BLOCK;
        let mut places: Vec<(u64, u64)> = (0..5000_u64)
            .map(|index| {
                let length = 64 + index * 977 % 2500;
                (placer.place(length, &mut end), length)
            })
            .collect();
        places.sort_unstable();
        assert!(places[0].0 >= BLOCK);
        for pair in places.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
        }
        for (place, length) in places {
            assert_eq!(place % SLOT, 0);
            assert!(place % BLOCK + length <= BLOCK && place + length <= end);
        }
    }

    #[test]
    fn a_long_record_has_blocks_of_its_own() {
        let mut placer = Placer::new();
        let mut end = 7 * BLOCK;
        assert_eq!(placer.place(BLOCK + 1, &mut end), 7 * BLOCK);
        assert_eq!(end, 9 * BLOCK);
    }
}
