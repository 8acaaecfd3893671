//! From the bytes that were fetched to verified content.

use std::io::{self, Read};
use std::ops::Range;

use flate2::bufread::MultiGzDecoder;

use super::inflate::{self, pass_over};
use crate::Digest;
use crate::window::Window;

/// How far frames may look back, as a power of two: what the strongest level of those who make such layers asks for.
const WINDOW_LOG: u32 = 25;

/// So much room is made at once: for as much as chunks mostly have.
const ROOM: u64 = 4 << 20;

/// A piece of the layer that is fetched, decompressed and verified as one.
///
/// Of eStargz and zstd:chunked its content is that of a file or a part of one, and has a digest. Of SOCI it is a
/// stretch of the archive, headers of files and all, and what has a digest is what was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk<'a> {
    number: u32,
    range: Range<u64>,
    length: u64,
    how: How<'a>,
    digest: Digest,
}

/// How the content is made of what was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How<'a> {
    /// A gzip member, and so many bytes of it to pass over.
    Member { skip: u32 },
    /// A zstd frame, likewise.
    Frame { skip: u32 },
    /// A part of a gzip stream.
    Span {
        /// How many upper bits of the first byte belong to it; 0 if all of it does.
        bits: u8,
        /// The content before it.
        window: &'a Window,
    },
    /// It is the content.
    Plain,
}

/// Why bytes that were fetched are not those of a chunk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// More or fewer bytes than were asked for.
    #[error("fetched {found} bytes of the layer for a chunk of {expected} bytes")]
    Length {
        /// How many the chunk has.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// They can't be decompressed, or to less than there must be.
    #[error("decompressing a chunk of the layer")]
    Decompress(#[source] io::Error),
    /// They are others than were promised.
    #[error("a chunk of the layer has the digest {found}, not {expected}")]
    Mismatch {
        /// What was promised.
        expected: Digest,
        /// What there is.
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

    /// Its number, by which [`crate::Index::chunk`] finds it again.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Which bytes of the layer to fetch for it.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Bytes of its content.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether this is its content; nothing where only what is fetched has a digest.
    pub fn is_content(&self, content: &[u8]) -> Option<bool> {
        match self.how {
            How::Member { .. } | How::Frame { .. } => {
                Some(self.length == content.len() as u64 && self.digest == Digest::of(content))
            }
            How::Span { .. } | How::Plain => None,
        }
    }

    /// Its content, made of the bytes of the layer in [`Chunk::range`]: as many as [`Chunk::length`] says, and those
    /// that were promised. No more is decompressed than is needed for it.
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

    /// The content that is added to nothing, if it is all of it. Room is made for what there is, not for what is told.
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

/// What zstd frames hold.
pub(crate) fn frames(frames: &[u8]) -> io::Result<impl Read + '_> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frames)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(decoder)
}
