//! Where inodes go: into blocks of their own between the contents.
//!
//! An inode is written when its file is whole, with the content itself if that is small. So neither has
//! to stay in memory, and there is no bound on how many small files are kept that way. Blocks for inodes
//! are set aside in packs, and only the pack that is being filled is in memory.

use crate::error::Result;
use crate::format::{BLOCK, SLOT};
use crate::stream::Stream;

/// How many blocks a pack has at most. The first has one, and each twice as many as the one before, so
/// that an image of one file has no empty blocks.
const BLOCKS: usize = 16;

/// Finds places. It only counts: the same lengths in the same order get the same places.
#[derive(Debug, Clone)]
pub(crate) struct Placer {
    base: u64,
    /// How much of each block of the pack is taken.
    taken: Vec<u64>,
    /// How many blocks the next pack has.
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

    /// A place for a record: in a block that has room, so that none crosses a block's end; behind `end`,
    /// a block's begin, if there is none. One that is longer than a block has blocks of its own.
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

/// The inodes that have a place already, of which the last are still in memory.
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

    /// What will find the same places.
    pub(crate) fn placer(&self) -> Placer {
        self.placer.clone()
    }

    /// Gives a record its place, which is returned.
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

    /// Writes what is in memory.
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
