//! An inode as it stands in the image.

use crate::attributes::{Attributes, Kind};
use crate::format::{BLOCK, CHUNK_BASED, FLAT_INLINE, FLAT_PLAIN, INODE};
use crate::xattr::count_of;

/// What an inode leads to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    /// Nothing: a pipe, a socket, an empty file.
    Nothing,
    /// A device, by its packed number.
    Device(u32),
    /// As many bytes in blocks, one after the other.
    Blocks { first: u32, size: u64 },
    /// As many bytes, of which the last part is behind the inode and the rest in blocks.
    Tail {
        first: u32,
        size: u64,
        tail: &'a [u8],
    },
    /// As many bytes in chunks of this many blocks, as a power of two, and where each is.
    Chunks {
        bits: u16,
        size: u64,
        addresses: &'a [u32],
    },
}

/// An inode with all that stands behind it.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) attributes: &'a Attributes,
    /// The attributes behind it, encoded.
    pub(crate) xattrs: &'a [u8],
    pub(crate) links: u32,
    /// A number of its own, for those whose inode numbers have 32 bits.
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
