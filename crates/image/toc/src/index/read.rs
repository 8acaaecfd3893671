//! Access to an index.

use super::layout::{BODY_DIGEST, HEADER, Layout};
use crate::Digest;

/// The number of the root directory.
pub const ROOT: u32 = 1;

/// An index is inconsistent: this crate did not write it, or it was changed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the index of a layer is damaged")]
pub struct Damaged;

/// A layer's contents, read from bytes in memory or in a mapping.
///
/// The bytes may be corrupt. In that case methods return [`Damaged`] or wrong data, but never panic or read out of
/// bounds.
#[derive(Debug)]
pub struct Index<B> {
    pub(super) bytes: B,
    pub(super) layout: Layout,
}

impl<B: AsRef<[u8]>> Index<B> {
    /// Opens an index. Only verifies the header; [`Index::check`] verifies the rest.
    pub fn open(bytes: B) -> Result<Self, Damaged> {
        let layout = Layout::read(bytes.as_ref()).ok_or(Damaged)?;
        Ok(Self { bytes, layout })
    }

    /// Verifies the digest of the whole index.
    pub fn check(&self) -> Result<(), Damaged> {
        let bytes = self.bytes();
        let told = bytes.get(BODY_DIGEST..BODY_DIGEST + 32).ok_or(Damaged)?;
        let body = bytes.get(HEADER..).ok_or(Damaged)?;
        if Digest::of(body).0 != told {
            return Err(Damaged);
        }
        Ok(())
    }

    /// Returns the bytes, to be written to a file.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Returns the size of the layer.
    pub fn blob(&self) -> u64 {
        self.layout.blob
    }

    /// Returns the number of bytes at the layer's start that its writer marked as needed soon.
    pub fn prioritized(&self) -> u64 {
        self.layout.prioritized
    }

    /// Returns the number of nodes, which are numbered from [`ROOT`] on.
    pub fn nodes(&self) -> u32 {
        self.layout.counts.nodes
    }
}
