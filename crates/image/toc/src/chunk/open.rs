//! Decompression and verification of fetched chunks.

use std::io::{self, Read};
use std::ops::Range;

use flate2::bufread::MultiGzDecoder;

use super::inflate::{self, pass_over};
use crate::Digest;
use crate::window::Window;

/// Maximum window of a frame, as a power of two: the value that the highest level of the known writers requires.
const WINDOW_LOG: u32 = 25;

/// Maximum size of the initial buffer, sufficient for most chunks.
const ROOM: u64 = 4 << 20;

/// A piece of the layer that is fetched, decompressed and verified as one unit.
///
/// For eStargz and zstd:chunked, its content is a file or a part of one, and the digest is that of the content. For
/// SOCI, it is a range of the archive including file headers, and the digest is that of the fetched bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk<'a> {
    number: u32,
    range: Range<u64>,
    length: u64,
    how: How<'a>,
    digest: Digest,
}

/// The conversion of fetched bytes to content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How<'a> {
    /// A gzip member, of which the first `skip` bytes are discarded.
    Member { skip: u32 },
    /// A zstd frame, of which the first `skip` bytes are discarded.
    Frame { skip: u32 },
    /// A span of a gzip stream.
    Span {
        /// The number of upper bits of the first byte that belong to the span; 0 for all.
        bits: u8,
        /// The content before the span.
        window: &'a Window,
    },
    /// Uncompressed content.
    Plain,
}

/// The reason to refuse the fetched bytes of a chunk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The number of bytes is wrong.
    #[error("fetched {found} bytes of the layer for a chunk of {expected} bytes")]
    Length {
        /// The size of the chunk.
        expected: u64,
        /// The number of fetched bytes.
        found: u64,
    },
    /// Decompression failed, or returned too few bytes.
    #[error("decompressing a chunk of the layer")]
    Decompress(#[source] io::Error),
    /// The digest is wrong.
    #[error("a chunk of the layer has the digest {found}, not {expected}")]
    Mismatch {
        /// The expected digest.
        expected: Digest,
        /// The actual digest.
        found: Digest,
    },
}

impl<'a> Chunk<'a> {
    pub(crate) fn new(
        number: u32,
        range: Range<u64>,
        length: u64,
        how: How<'a>,
        digest: Digest,
    ) -> Self {
        Self {
            number,
            range,
            length,
            how,
            digest,
        }
    }

    /// Returns the chunk's number, for [`crate::Index::chunk`].
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the range of the layer to fetch.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns the size of the content.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reports whether `content` matches the digest; `None` if only the fetched bytes have a digest.
    pub fn is_content(&self, content: &[u8]) -> Option<bool> {
        match self.how {
            How::Member { .. } | How::Frame { .. } => {
                Some(self.length == content.len() as u64 && self.digest == Digest::of(content))
            }
            How::Span { .. } | How::Plain => None,
        }
    }

    /// Decompresses and verifies the bytes of the layer in [`Chunk::range`]. Returns [`Chunk::length`] bytes of
    /// content, and decompresses no more than is needed.
    pub fn open(&self, fetched: &[u8]) -> Result<Vec<u8>, OpenError> {
        let expected = self.range.end - self.range.start;
        if fetched.len() as u64 != expected {
            return Err(OpenError::Length {
                expected,
                found: fetched.len() as u64,
            });
        }
        match self.how {
            How::Member { skip } => self.verified(MultiGzDecoder::new(fetched), skip),
            How::Frame { skip } => {
                self.verified(frames(fetched).map_err(OpenError::Decompress)?, skip)
            }
            How::Span { bits, window } => {
                self.is_promised(fetched)?;
                self.whole(|content| inflate::span(fetched, bits, window, self.length, content))
            }
            How::Plain => {
                self.is_promised(fetched)?;
                self.whole(|content| io::copy(&mut fetched.take(self.length), content).map(drop))
            }
        }
    }

    fn verified(&self, mut from: impl Read, skip: u32) -> Result<Vec<u8>, OpenError> {
        let content = self.whole(|content| {
            pass_over(&mut from, skip)?;
            io::copy(&mut from.take(self.length), content).map(drop)
        })?;
        self.is_promised(&content)?;
        Ok(content)
    }

    /// Collects the content and checks its size. The buffer grows with the actual data, not with the announced size.
    fn whole(
        &self,
        add: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> Result<Vec<u8>, OpenError> {
        let mut content = Vec::with_capacity(self.length.min(ROOM) as usize);
        add(&mut content).map_err(OpenError::Decompress)?;
        if content.len() as u64 != self.length {
            return Err(OpenError::Decompress(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(content)
    }

    fn is_promised(&self, bytes: &[u8]) -> Result<(), OpenError> {
        let found = Digest::of(bytes);
        if found != self.digest {
            return Err(OpenError::Mismatch {
                expected: self.digest,
                found,
            });
        }
        Ok(())
    }
}

/// Returns a reader of the content of zstd frames.
pub(crate) fn frames(frames: &[u8]) -> io::Result<impl Read + '_> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frames)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(decoder)
}
