//! Mapping from files to chunks of the layer.

use std::ops::Range;

use super::Kind;
use super::attributes::Node;
use super::bytes::{u32_at, u64_at};
use super::layout::{CHUNK, DIGEST, SPAN, Storage};
use super::read::{Damaged, Index};
use crate::Digest;
use crate::chunk::{Chunk, How};
use crate::window::WINDOW;

/// A range of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent<'a> {
    /// The position in the file.
    pub range: Range<u64>,
    /// The content of the range.
    pub content: Content<'a>,
}

/// The content of a range of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content<'a> {
    /// Zeros, which need no fetch.
    Zeros,
    /// Bytes of a chunk.
    Chunk {
        /// The chunk.
        chunk: Chunk<'a>,
        /// The position of these bytes in the result of [`Chunk::open`].
        at: u64,
    },
}

/// A chunk in the encoding of the index.
struct Member {
    number: u32,
    begin: u64,
    stored: Range<u64>,
    skip: u32,
    length: u32,
    frame: bool,
    digest: Digest,
}

impl Member {
    /// Returns the chunk to fetch; `None` for zeros.
    fn content<'a>(self) -> Option<Chunk<'a>> {
        let how = if self.frame {
            How::Frame { skip: self.skip }
        } else {
            How::Member { skip: self.skip }
        };
        let stored = !self.stored.is_empty();
        stored.then(|| {
            Chunk::new(
                self.number,
                self.stored,
                self.length.into(),
                how,
                self.digest,
            )
        })
    }
}

/// A span in the encoding of the index.
struct Span {
    offset: u64,
    out: u64,
    bits: u8,
    digest: Digest,
}

impl<B: AsRef<[u8]>> Index<B> {
    /// Returns the extents of a byte range of a file. Bytes past the file's end are ignored.
    pub fn extents(
        &self,
        file: &Node,
        wanted: Range<u64>,
    ) -> Result<impl Iterator<Item = Result<Extent<'_>, Damaged>> + use<'_, B>, Damaged> {
        let file = *file;
        let end = match file.kind {
            Kind::File => wanted.end.min(file.size),
            _ => 0,
        };
        let mut at = if wanted.start < end {
            self.first_extent(&file, wanted.start)?
        } else {
            0
        };
        let mut reached = wanted.start;
        Ok(std::iter::from_fn(move || {
            if reached >= end {
                return None;
            }
            let extent = self.extent(&file, at).ok_or(Damaged);
            match &extent {
                Ok(extent) if extent.range.end > reached => reached = extent.range.end,
                _ => reached = end,
            }
            at = at.saturating_add(1);
            Some(extent)
        }))
    }

    /// Returns the number of chunks. All chunks together contain the whole content of the layer.
    pub fn chunks(&self) -> u32 {
        if self.layout.storage.has_chunks() {
            self.layout.counts.chunks
        } else {
            self.layout.counts.spans
        }
    }

    /// Returns the chunk of a number, counted from 0; `None` for zeros.
    pub fn chunk(&self, number: u32) -> Result<Option<Chunk<'_>>, Damaged> {
        if number >= self.chunks() {
            return Ok(None);
        }
        if self.layout.storage.has_chunks() {
            Ok(self.member(number).ok_or(Damaged)?.content())
        } else {
            self.span(number).map(Some).ok_or(Damaged)
        }
    }

    fn first_extent(&self, file: &Node, offset: u64) -> Result<u32, Damaged> {
        if self.layout.storage.has_chunks() {
            let begins = |at: u32| Some(self.member(file.first.checked_add(at)?)?.begin);
            return last_not_after(file.count, offset, begins);
        }
        let offset = tar_offset(file).checked_add(offset).ok_or(Damaged)?;
        let begins = |at: u32| Some(self.span_record(at)?.out);
        last_not_after(self.layout.counts.spans, offset, begins)
    }

    /// Returns the extent with this number within the file, or for spans within the layer.
    fn extent(&self, file: &Node, at: u32) -> Option<Extent<'_>> {
        if self.layout.storage.has_chunks() {
            if at >= file.count {
                return None;
            }
            let member = self.member(file.first.checked_add(at)?)?;
            return Some(Extent {
                range: member.begin..member.begin.checked_add(member.length.into())?,
                content: match member.content() {
                    Some(chunk) => Content::Chunk { chunk, at: 0 },
                    None => Content::Zeros,
                },
            });
        }
        let (begin, chunk) = (self.span_record(at)?.out, self.span(at)?);
        let end = begin.checked_add(chunk.length())?;
        let file_begin = tar_offset(file);
        let file_end = file_begin.checked_add(file.size)?;
        let (first, last) = (begin.max(file_begin), end.min(file_end));
        Some(Extent {
            range: first.checked_sub(file_begin)?..last.checked_sub(file_begin)?,
            content: Content::Chunk {
                at: first.checked_sub(begin)?,
                chunk,
            },
        })
    }

    fn member(&self, number: u32) -> Option<Member> {
        if number >= self.layout.counts.chunks {
            return None;
        }
        let bytes = self.bytes();
        let at = self.layout.chunks.start + number as usize * CHUNK;
        let digest = self.layout.digests.start + number as usize * DIGEST;
        let offset = u64_at(bytes, at + 8)?;
        Some(Member {
            number,
            begin: u64_at(bytes, at)?,
            stored: offset..offset.checked_add(u32_at(bytes, at + 16)?.into())?,
            skip: u32_at(bytes, at + 20)?,
            length: u32_at(bytes, at + 24)?,
            frame: self.layout.storage == Storage::Frames,
            digest: Digest(*bytes.get(digest..)?.first_chunk()?),
        })
    }

    fn span_record(&self, number: u32) -> Option<Span> {
        if number > self.layout.counts.spans {
            return None;
        }
        let bytes = self.bytes().get(..self.layout.spans.end)?;
        let at = self.layout.spans.start + number as usize * SPAN;
        Some(Span {
            offset: u64_at(bytes, at)?,
            out: u64_at(bytes, at + 8)?,
            bits: *bytes.get(at + 16)?,
            digest: Digest(*bytes.get(at + 24..)?.first_chunk()?),
        })
    }

    fn span(&self, number: u32) -> Option<Chunk<'_>> {
        let (span, next) = (
            self.span_record(number)?,
            self.span_record(number.checked_add(1)?)?,
        );
        let length = next.out.checked_sub(span.out)?;
        let begin = span.offset.checked_sub(u64::from(span.bits != 0))?;
        let how = match self.layout.storage {
            Storage::Spans => {
                let at = self.layout.windows.start + number as usize * WINDOW;
                let window = self.bytes().get(at..)?.first_chunk()?;
                How::Span {
                    bits: span.bits,
                    window,
                }
            }
            _ => How::Plain,
        };
        (begin <= next.offset)
            .then(|| Chunk::new(number, begin..next.offset, length, how, span.digest))
    }
}

/// Returns the offset of a file in the archive, for a layer of spans.
fn tar_offset(file: &Node) -> u64 {
    u64::from(file.first) | u64::from(file.count) << 32
}

/// Returns the last of `count` items that begins at an offset or before.
fn last_not_after(
    count: u32,
    offset: u64,
    begins: impl Fn(u32) -> Option<u64>,
) -> Result<u32, Damaged> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if begins(middle).ok_or(Damaged)? <= offset {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low.checked_sub(1).ok_or(Damaged)
}
