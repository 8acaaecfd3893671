//! Layout of an index: the offsets of its parts.

use std::ops::Range;

use super::bytes::{u32_at, u64_at};
use crate::Digest;
use crate::window::WINDOW;

/// Size of the header.
pub(super) const HEADER: usize = 128;
/// Offset of the digests in the header: first that of all bytes after the header, then that of the header.
pub(super) const BODY_DIGEST: usize = 64;
pub(super) const OWN_DIGEST: usize = 96;
const MAGIC: &[u8; 8] = b"orloptoc";
const VERSION: u32 = 1;

pub(super) const NODE: usize = 20;
pub(super) const ENTRY: usize = 8;
pub(super) const ATTRIBUTES: usize = 32;
pub(super) const CHUNK: usize = 28;
pub(super) const DIGEST: usize = 32;
pub(super) const SPAN: usize = 56;
/// The storage format of file contents in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Each chunk is in a gzip member, which begins at the chunk or some bytes before it.
    Members,
    /// The same with zstd frames.
    Frames,
    /// One gzip stream, with some points where decompression can start.
    Spans,
    /// An uncompressed archive.
    Plain,
}

impl Storage {
    const ALL: [(Self, u8); 4] = [
        (Self::Members, 1),
        (Self::Frames, 2),
        (Self::Spans, 3),
        (Self::Plain, 4),
    ];

    fn code(self) -> u8 {
        let found = Self::ALL.iter().find(|(storage, _)| *storage == self);
        found.map_or(0, |(_, code)| *code)
    }

    fn of(code: u8) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == code);
        found.map(|(storage, _)| *storage)
    }

    /// Reports whether each file has its own chunks.
    pub(crate) fn has_chunks(self) -> bool {
        matches!(self, Self::Members | Self::Frames)
    }
}

/// The number of items in each part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) nodes: u32,
    pub(super) entries: u32,
    pub(super) attributes: u32,
    pub(super) chunks: u32,
    pub(super) spans: u32,
    pub(super) windows: u32,
    pub(super) names: u32,
    pub(super) texts: u32,
}

/// The contents of the header, and the offsets computed from it.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) storage: Storage,
    pub(super) blob: u64,
    pub(super) prioritized: u64,
    pub(super) counts: Counts,
    pub(super) nodes: Range<usize>,
    pub(super) entries: Range<usize>,
    pub(super) attributes: Range<usize>,
    pub(super) chunks: Range<usize>,
    pub(super) digests: Range<usize>,
    pub(super) spans: Range<usize>,
    pub(super) names: Range<usize>,
    pub(super) texts: Range<usize>,
    pub(super) windows: Range<usize>,
}

impl Layout {
    /// Computes the layout; returns `None` if a size overflows.
    pub(super) fn new(
        storage: Storage,
        blob: u64,
        prioritized: u64,
        counts: Counts,
    ) -> Option<Self> {
        let mut end = HEADER;
        let mut part = |count: u32, each: usize| {
            let begin = end;
            let bytes = (count as usize).checked_mul(each)?;
            let last = begin.checked_add(bytes)?;
            end = last.checked_next_multiple_of(8)?;
            Some(begin..last)
        };
        // One more entry and span mark the ends of the last ones.
        let spans = match counts.spans {
            0 => 0,
            spans => spans.checked_add(1)?,
        };
        Some(Self {
            storage,
            blob,
            prioritized,
            counts,
            nodes: part(counts.nodes, NODE)?,
            entries: part(counts.entries.checked_add(1)?, ENTRY)?,
            attributes: part(counts.attributes, ATTRIBUTES)?,
            chunks: part(counts.chunks, CHUNK)?,
            digests: part(counts.chunks, DIGEST)?,
            spans: part(spans, SPAN)?,
            names: part(counts.names, 1)?,
            texts: part(counts.texts, 1)?,
            windows: part(counts.windows, WINDOW)?,
        })
    }

    /// Returns the size of the whole index.
    pub(super) fn length(&self) -> usize {
        // The size of a window is a multiple of the padding.
        self.windows.end
    }

    /// Parses the header of an index, if it is intact.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER)?;
        let known = header.starts_with(MAGIC) && u32_at(header, 8)? == VERSION;
        let (told, own) = header.split_at(OWN_DIGEST);
        if !known || Digest::of(told).0 != own {
            return None;
        }
        let count = |at: usize| u32_at(header, 32 + at * 4);
        let counts = Counts {
            nodes: count(0)?,
            entries: count(1)?,
            attributes: count(2)?,
            chunks: count(3)?,
            spans: count(4)?,
            windows: count(5)?,
            names: count(6)?,
            texts: count(7)?,
        };
        let storage = Storage::of(*header.get(12)?)?;
        let layout = Self::new(storage, u64_at(header, 16)?, u64_at(header, 24)?, counts)?;
        (layout.length() == bytes.len()).then_some(layout)
    }

    /// Writes the header of a complete index.
    pub(super) fn seal(&self, bytes: &mut [u8]) {
        let body = Digest::of(&bytes[HEADER..]);
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&[self.storage.code(), 0, 0, 0]);
        header.extend_from_slice(&self.blob.to_le_bytes());
        header.extend_from_slice(&self.prioritized.to_le_bytes());
        let Counts {
            nodes,
            entries,
            attributes,
            chunks,
            spans,
            windows,
            names,
            texts,
        } = self.counts;
        for count in [
            nodes, entries, attributes, chunks, spans, windows, names, texts,
        ] {
            header.extend_from_slice(&count.to_le_bytes());
        }
        header.extend_from_slice(&body.0);
        let own = Digest::of(&header);
        header.extend_from_slice(&own.0);
        bytes[..HEADER].copy_from_slice(&header);
    }
}
