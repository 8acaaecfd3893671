//! Encoding of inodes.

use crate::attributes::{Attributes, Kind};
use crate::format::{BLOCK, CHUNK_BASED, FLAT_INLINE, FLAT_PLAIN, INODE};
use crate::xattr::count_of;

/// The content of an inode.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    /// No content: a pipe, a socket, an empty file.
    Nothing,
    /// A device with its packed number.
    Device(u32),
    /// `size` bytes in contiguous blocks.
    Blocks { first: u32, size: u64 },
    /// Bytes in blocks, with the last part after the inode.
    Tail {
        first: u32,
        size: u64,
        tail: &'a [u8],
    },
    /// Bytes in chunks: the blocks per chunk as a power of two, and the address of each.
    Chunks {
        bits: u16,
        size: u64,
        addresses: &'a [u32],
    },
}

/// An inode with the data that follows it.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) attributes: &'a Attributes,
    /// The encoded extended attributes that follow it.
    pub(crate) xattrs: &'a [u8],
    pub(crate) links: u32,
    /// A unique number, for callers with 32-bit inode numbers.
    pub(crate) number: u32,
    pub(crate) content: Content<'a>,
}

impl Record<'_> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (layout, size, field) = match self.content {
            Content::Nothing => (FLAT_PLAIN, 0, 0),
            Content::Device(device) => (FLAT_PLAIN, 0, device),
            Content::Blocks { first, size } => (FLAT_PLAIN, size, first),
            Content::Tail { first, size, .. } => (FLAT_INLINE, size, first),
            Content::Chunks { bits, size, .. } => (CHUNK_BASED, size, u32::from(bits)),
        };
        let attributes = self.attributes;
        let mut record = Vec::with_capacity(BLOCK as usize);
        record.extend((1 | layout << 1).to_le_bytes());
        record.extend(count_of(self.xattrs).to_le_bytes());
        record.extend((self.kind.mode() | attributes.mode & 0o7777).to_le_bytes());
        record.extend([0; 2]);
        record.extend(size.to_le_bytes());
        record.extend(field.to_le_bytes());
        record.extend(self.number.to_le_bytes());
        record.extend(attributes.uid.to_le_bytes());
        record.extend(attributes.gid.to_le_bytes());
        record.extend(attributes.mtime.seconds.to_le_bytes());
        record.extend(attributes.mtime.nanoseconds.min(999_999_999).to_le_bytes());
        record.extend(self.links.to_le_bytes());
        record.resize(INODE, 0);
        record.extend(self.xattrs);
        match self.content {
            Content::Tail { tail, .. } => record.extend(tail),
            Content::Chunks { addresses, .. } => {
                record.extend(addresses.iter().flat_map(|address| address.to_le_bytes()));
            }
            _ => {}
        }
        record
    }
}
