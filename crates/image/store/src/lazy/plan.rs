//! Positions of the files of a lazy layer in its image.
//!
//! ```text
//! 0          PART                      end                size
//! ├ superblock ┼ files, as in the layer ┼ inodes, directories ┤
//! ```
//!
//! The superblock, inodes and directories are on disk from the start. Files are in the order of their content in the
//! layer, so that data that is read together is fetched together. Each file starts at a block boundary. The table of
//! contents alone determines the plan.

use std::collections::BTreeSet;
use std::ops::Range;

use orlop_lazy::PART;
use orlop_toc::{Content, Damaged, Extent, Index, Kind, Node, ROOT};

/// Alignment of each file.
const BLOCK: u64 = 4096;

/// Positions of the files in the image.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Ordered by position.
    files: Vec<Placed>,
    /// Bytes from the start of the first file to the end of the last one.
    bytes: u64,
}

/// A file and its first block, counted from the end of the superblock's part.
#[derive(Debug, Clone, Copy)]
struct Placed {
    node: u32,
    block: u32,
}

/// A range of a file that one chunk is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    /// The range in the image.
    pub(super) image: Range<u64>,
    /// The end of the range, including the padding before the next file if this file ends here.
    pub(super) end: u64,
    /// The chunk's number and the offset in its content, or `None` for zeros.
    pub(super) from: Option<(u32, u64)>,
}

/// The layer is larger than an image can be.
#[derive(Debug, thiserror::Error)]
#[error("the layer does not fit into one EROFS image")]
pub(super) struct TooLarge;

impl Plan {
    /// Assigns a position to each file that has content.
    pub(super) fn of<B: AsRef<[u8]>>(index: &Index<B>) -> Result<Result<Self, TooLarge>, Damaged> {
        let mut order = Vec::new();
        for number in ROOT..=index.nodes() {
            let Some(node) = index.node(number)? else {
                continue;
            };
            if node.kind == Kind::File && node.size > 0 {
                order.push((begin(index, &node)?, number, node.size));
            }
        }
        order.sort_unstable();
        let mut plan = Self::default();
        plan.files.reserve_exact(order.len());
        for (_, node, size) in order {
            let Ok(block) = u32::try_from(plan.bytes / BLOCK) else {
                return Ok(Err(TooLarge));
            };
            plan.files.push(Placed { node, block });
            let end = plan.bytes.checked_add(size);
            let Some(end) = end.and_then(|end| end.checked_next_multiple_of(BLOCK)) else {
                return Ok(Err(TooLarge));
            };
            plan.bytes = end;
        }
        Ok(Ok(plan))
    }

    /// Returns the total size of the files in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the range of the image that holds files, in whole parts.
    pub(super) fn room(&self) -> Range<u64> {
        PART..PART + self.bytes.next_multiple_of(PART)
    }

    /// Returns the position of each file in the image.
    pub(super) fn places(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let place = |file: &Placed| (file.node, position(*file));
        self.files.iter().map(place)
    }

    /// Returns the end of the files whose content starts in the `first` bytes of the layer.
    pub(super) fn reaches<B: AsRef<[u8]>>(
        &self,
        index: &Index<B>,
        first: u64,
    ) -> Result<u64, Damaged> {
        let (mut low, mut high) = (0, self.files.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let node = index.node(self.files[middle].node)?.ok_or(Damaged)?;
            if begin(index, &node)?.0 < first {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let next = self.files.get(low).map(|file| position(*file));
        Ok(next.unwrap_or(self.room().end))
    }

    /// Widens a range of the image to all neighbouring ranges of the same chunks.
    pub(super) fn widened<B: AsRef<[u8]>>(
        &self,
        index: &Index<B>,
        wanted: &Range<u64>,
    ) -> Result<Range<u64>, Damaged> {
        let room = self.room();
        let (mut start, mut end) = (wanted.start.max(room.start), wanted.end.min(room.end));
        if start >= end {
            return Ok(start..start);
        }
        let stretches = self.stretches(index, &(start..end))?;
        let (Some(first), Some(last)) = (stretches.first(), stretches.last()) else {
            return Ok(start..end);
        };
        start = start.min(first.image.start);
        end = end.max(last.end);
        let chunk = |stretch: &Stretch| stretch.from.map(|(chunk, _)| chunk);
        while start > room.start {
            let before = self.stretches(index, &(start - 1..start))?;
            match before.last() {
                Some(before) if chunk(before) == chunk(first) && before.image.start < start => {
                    start = before.image.start;
                }
                _ => break,
            }
        }
        while end < room.end {
            let behind = self.stretches(index, &(end..end + 1))?;
            match behind.first() {
                Some(behind) if chunk(behind) == chunk(last) && behind.end > end => {
                    end = behind.end;
                }
                _ => break,
            }
        }
        Ok(start..end)
    }

    /// Returns the stretches that a range of the image consists of, in order.
    pub(super) fn stretches<B: AsRef<[u8]>>(
        &self,
        index: &Index<B>,
        wanted: &Range<u64>,
    ) -> Result<Vec<Stretch>, Damaged> {
        let mut found = Vec::new();
        let begins = |file: &Placed| position(*file) <= wanted.start;
        let first = self.files.partition_point(begins).saturating_sub(1);
        for at in first..self.files.len() {
            let file = self.files[at];
            let begin = position(file);
            if begin >= wanted.end {
                break;
            }
            let node = index.node(file.node)?.ok_or(Damaged)?;
            let next = self.files.get(at + 1).map(|next| position(*next));
            let next = next.unwrap_or(self.room().end);
            // The padding after a file belongs to its last byte.
            let within = wanted
                .start
                .saturating_sub(begin)
                .min(node.size.saturating_sub(1));
            let within = within..(wanted.end - begin).max(within + 1);
            for extent in index.extents(&node, within)? {
                found.push(stretch(&extent?, begin, node.size, next)?);
            }
        }
        Ok(found)
    }
}

/// Returns the whole parts that these ranges fill. The ranges are in order and may overlap.
pub(super) fn parts(
    filled: impl IntoIterator<Item = Range<u64>>,
    room: &Range<u64>,
) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in filled {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    let whole = joined.into_iter().map(|range| {
        let end = if range.end >= room.end {
            room.end
        } else {
            range.end - range.end % PART
        };
        range.start.next_multiple_of(PART)..end
    });
    whole.filter(|range| range.start < range.end).collect()
}

/// Returns the chunks that the stretches need.
pub(super) fn chunks(stretches: &[Stretch]) -> BTreeSet<u32> {
    let from = stretches.iter().filter_map(|stretch| stretch.from);
    from.map(|(chunk, _)| chunk).collect()
}

fn position(file: Placed) -> u64 {
    PART + u64::from(file.block) * BLOCK
}

fn stretch(extent: &Extent<'_>, begin: u64, size: u64, next: u64) -> Result<Stretch, Damaged> {
    let start = begin.checked_add(extent.range.start).ok_or(Damaged)?;
    let end = begin.checked_add(extent.range.end).ok_or(Damaged)?;
    if extent.range.is_empty() || extent.range.end > size || end > next {
        return Err(Damaged);
    }
    Ok(Stretch {
        image: start..end,
        end: if extent.range.end == size { next } else { end },
        from: match &extent.content {
            Content::Zeros => None,
            Content::Chunk { chunk, at } => Some((chunk.number(), *at)),
        },
    })
}

/// Returns the start of a file's content: its offset in the layer, then the offset in the decompressed chunk.
fn begin<B: AsRef<[u8]>>(index: &Index<B>, node: &Node) -> Result<(u64, u64), Damaged> {
    for extent in index.extents(node, 0..node.size)? {
        if let Content::Chunk { chunk, at } = extent?.content {
            return Ok((chunk.range().start, at));
        }
    }
    Ok((u64::MAX, 0))
}
