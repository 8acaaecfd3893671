//! An index, opened.

use super::layout::{BODY_DIGEST, HEADER, Layout};
use crate::Digest;

/// The number of the root directory.
pub const ROOT: u32 = 1;

/// An index's bytes contradict each other: it was not written by this crate, or has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the index of a layer is damaged")]
pub struct Damaged;

/// What a layer holds, read from bytes that somebody else keeps: in memory, or mapped.
///
/// The bytes may be harmed: whatever they are, what is read is [`Damaged`], or wrong, but nothing worse.
#[derive(Debug)]
pub struct Index<B> {
    pub(super) bytes: B,
    pub(super) layout: Layout,
}

impl<B: AsRef<[u8]>> Index<B> {
    /// Opens an index. Its header alone is looked at: [`Index::check`] reads the rest.
    pub fn open(bytes: B) -> Result<Self, Damaged> {
        let layout = Layout::read(bytes.as_ref()).ok_or(Damaged)?;
        Ok(Self { bytes, layout })
    }

    /// Reads all of it, and whether it still is what was written.
    pub fn check(&self) -> Result<(), Damaged> {
        let bytes = self.bytes();
        let told = bytes.get(BODY_DIGEST..BODY_DIGEST + 32).ok_or(Damaged)?;
        let body = bytes.get(HEADER..).ok_or(Damaged)?;
        if Digest::of(body).0 != told {
            return Err(Damaged);
        }
        Ok(())
    }

    /// The bytes, to be written to a file.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Bytes of the layer.
    pub fn blob(&self) -> u64 {
        self.layout.blob
    }

    /// So many of the layer's first bytes are what its maker thinks is wanted soon.
    pub fn prioritized(&self) -> u64 {
        self.layout.prioritized
    }

    /// How many nodes there are; they are numbered from [`ROOT`] on.
    pub fn nodes(&self) -> u32 {
        self.layout.counts.nodes
    }
}
