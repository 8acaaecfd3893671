//! Contents of files: sequences of chunks.

use super::entry::Piece;
use crate::error::at_most;
use crate::index::{DraftChunk, Storage};
use crate::tree::Tree;
use crate::{Digest, Error, Limits, Problem, Result};

/// The layer of a table of contents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blob {
    pub(crate) storage: Storage,
    pub(crate) bytes: u64,
    /// Number of bytes before the table of contents.
    pub(crate) payload: u64,
}

/// The chunks of all files, and the current file.
pub(super) struct Chunks<'l> {
    limits: &'l Limits,
    payload: u64,
    open: Option<Open>,
    chunks: Vec<DraftChunk>,
    /// Offsets in the layer where content begins, and announced ends of chunks.
    begins: Vec<u64>,
    ends: Vec<(u32, u64)>,
}

/// The file whose chunks are being read.
struct Open {
    name: String,
    /// `None` if the file is not in the tree.
    node: Option<u32>,
    size: u64,
    covered: u64,
    first: u32,
    end: u64,
    whole: Option<Digest>,
}

/// Maximum size of a chunk of zeros.
const ZEROS: u64 = 1 << 31;

impl<'l> Chunks<'l> {
    pub(super) fn new(blob: Blob, limits: &'l Limits) -> Self {
        Self {
            limits,
            payload: blob.payload,
            open: None,
            chunks: Vec::new(),
            begins: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Starts a file with its first chunk.
    pub(super) fn begin(
        &mut self,
        name: &str,
        node: Option<u32>,
        size: u64,
        piece: Piece,
    ) -> Result<()> {
        self.open = Some(Open {
            name: name.to_owned(),
            node,
            size,
            covered: 0,
            first: self.chunks.len() as u32,
            end: piece.end,
            whole: piece.whole,
        });
        match size {
            0 => Ok(()),
            _ => self.add(piece),
        }
    }

    /// Adds another chunk of the same file.
    pub(super) fn add(&mut self, piece: Piece) -> Result<()> {
        let Some(open) = &mut self.open else {
            return Err(Error::entry(b"", Problem::ChunkOfNothing));
        };
        let bad = |problem| Error::entry(open.name.as_bytes(), problem);
        if piece.begin != open.covered {
            return Err(bad(Problem::Gap));
        }
        let left = open.size - open.covered;
        let length = match piece.length {
            0 => left,
            length => length,
        };
        if length > left || length == 0 {
            return Err(bad(Problem::Cover));
        }
        let (begin, mut rest) = (open.covered, length);
        open.covered += length;
        if piece.zeros {
            let pieces = length.div_ceil(ZEROS);
            let all = pieces.saturating_add(self.chunks.len() as u64);
            at_most("chunks", all, self.limits.chunks.into())?;
            while rest > 0 {
                let length = rest.min(ZEROS);
                self.chunks.push(DraftChunk {
                    begin: open.covered - rest,
                    offset: 0,
                    stored: 0,
                    skip: 0,
                    length: length as u32,
                    digest: Digest([0; 32]),
                });
                rest -= length;
            }
            return Ok(());
        }
        if piece.offset >= self.payload {
            return Err(bad(Problem::Outside));
        }
        let inside = piece.skip.checked_add(length);
        if inside.is_none_or(|bytes| bytes > self.limits.chunk.into()) {
            return Err(bad(Problem::ChunkTooLarge));
        }
        let whole = open.whole.filter(|_| length == open.size);
        let Some(digest) = piece.digest.or(whole) else {
            return Err(bad(Problem::Unverifiable));
        };
        at_most(
            "chunks",
            self.chunks.len() as u64 + 1,
            self.limits.chunks.into(),
        )?;
        self.begins.push(piece.offset);
        self.chunks.push(DraftChunk {
            begin,
            offset: piece.offset,
            // A placeholder that is not 0; `finish` computes the size.
            stored: 1,
            skip: piece.skip as u32,
            length: length as u32,
            digest,
        });
        Ok(())
    }

    /// Ends the current file, if there is one.
    pub(super) fn end(&mut self, tree: &mut Tree<'_>) -> Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        if open.covered != open.size {
            return Err(Error::entry(open.name.as_bytes(), Problem::Cover));
        }
        let count = self.chunks.len() as u32 - open.first;
        let Some(node) = open.node else {
            // Its start stays recorded, because the previous content ends there.
            self.chunks.truncate(open.first as usize);
            return Ok(());
        };
        if open.end != 0 && count > 0 {
            self.ends.push((self.chunks.len() as u32 - 1, open.end));
        }
        tree.place(node, open.first, count);
        Ok(())
    }

    /// Returns all chunks. Each ends in the layer at its announced end, or else where the next content begins.
    pub(super) fn finish(mut self) -> Vec<DraftChunk> {
        self.begins.sort_unstable();
        self.begins.dedup();
        let mut ends = self.ends.iter().copied().peekable();
        for (at, chunk) in self.chunks.iter_mut().enumerate() {
            let told = ends.next_if(|(chunk, _)| *chunk as usize == at);
            if chunk.stored == 0 {
                continue;
            }
            let next = self.begins.partition_point(|begin| *begin <= chunk.offset);
            let next = self.begins.get(next).copied().unwrap_or(self.payload);
            let end = match told {
                Some((_, end)) if end > chunk.offset => end.min(next),
                _ => next,
            };
            let most = at_worst(u64::from(chunk.skip) + u64::from(chunk.length));
            chunk.stored = (end - chunk.offset).min(most) as u32;
        }
        self.chunks
    }
}

/// Returns the maximum compressed size of `bytes` bytes. This limits how much a small chunk can make a node fetch.
fn at_worst(bytes: u64) -> u64 {
    bytes + bytes / 8 + (64 << 10)
}
