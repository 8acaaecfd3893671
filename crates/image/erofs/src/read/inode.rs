//! Inodes of an image.

use super::bytes::{u16_at, u32_at, u64_at};
use super::{Error, Reader, Result, Source};
use crate::attributes::{Kind, Timestamp};
use crate::format::{
    CHUNK_BASED, CHUNK_BITS, CHUNK_INDEXES, COMPACT_INODE, FLAT_INLINE, FLAT_PLAIN, INODE, SLOT,
    XATTR_ENTRY, XATTR_HEADER, device_numbers,
};

/// An inode: its attributes, and the location of its data.
#[derive(Debug, Clone)]
pub struct Inode {
    pub(super) nid: u64,
    kind: Kind,
    mode: u16,
    uid: u32,
    gid: u32,
    links: u32,
    mtime: Timestamp,
    pub(super) size: u64,
    device: u32,
    pub(super) layout: Layout,
    /// Position and size of its extended attributes.
    pub(super) xattrs: (u64, u32),
}

/// The location of a content. Everything except chunks is within the image.
#[derive(Debug, Clone, Copy)]
pub(super) enum Layout {
    /// In blocks from this position.
    Blocks(u64),
    /// In blocks from a position, with the last part at another one.
    Tail { blocks: u64, tail: u64 },
    /// In chunks of 2^`bits` bytes; their table is at `table` and has entries of `width` bytes.
    Chunks { bits: u32, table: u64, width: u64 },
}

impl Inode {
    /// Returns the inode's number, which is unique in the image.
    pub fn nid(&self) -> u64 {
        self.nid
    }

    /// Returns the file type.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the permissions, with setuid, setgid and sticky.
    pub fn mode(&self) -> u16 {
        self.mode
    }

    /// Returns the user ID.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the group ID.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Returns the link count in the inode.
    pub fn links(&self) -> u32 {
        self.links
    }

    /// Returns the modification time.
    pub fn mtime(&self) -> Timestamp {
        self.mtime
    }

    /// Returns the size of the content.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the device numbers: major, minor.
    pub fn device(&self) -> Option<(u32, u32)> {
        let is_device = matches!(self.kind, Kind::Character | Kind::Block);
        is_device.then(|| device_numbers(self.device))
    }
}

impl<S: Source> Reader<S> {
    /// Reads the inode with a number from a directory entry.
    pub fn inode(&self, nid: u64) -> Result<Inode> {
        const NOWHERE: Error = Error::Corrupt("the position of an inode is out of range");
        let position = nid
            .checked_mul(SLOT)
            .and_then(|offset| offset.checked_add(self.meta))
            .ok_or(NOWHERE)?;
        let mut bytes = [0; INODE];
        self.read_bytes(&mut bytes[..COMPACT_INODE], position)?;
        let format = u16_at(&bytes, 0);
        if format >> 4 != 0 {
            return Err(Error::Unsupported("inodes with an unknown format"));
        }
        let is_extended = format & 1 != 0;
        if is_extended {
            self.read_bytes(&mut bytes, position)?;
        }
        let mode = u16_at(&bytes, 4);
        let kind = Kind::of_mode(mode).ok_or(Error::Corrupt("an inode has an unknown type"))?;
        let size = if is_extended {
            u64_at(&bytes, 8)
        } else {
            u64::from(u32_at(&bytes, 8))
        };
        if i64::try_from(size).is_err() {
            return Err(Error::Corrupt("a size is negative"));
        }
        let length = if is_extended { INODE } else { COMPACT_INODE };
        let xattrs = position + length as u64;
        let xattr_length = xattr_length(u16_at(&bytes, 2));
        let behind = xattrs + u64::from(xattr_length);
        if xattr_length > 0 && behind > self.length {
            return Err(Error::Corrupt(
                "extended attributes are beyond the end of the image",
            ));
        }
        let field = u32_at(&bytes, 16);
        let (build_seconds, build_nanoseconds) = self.build_time();
        let (uid, gid, links, seconds, nanoseconds) = if is_extended {
            let owner = (u32_at(&bytes, 24), u32_at(&bytes, 28));
            let time = (u64_at(&bytes, 32), u32_at(&bytes, 40));
            (owner.0, owner.1, u32_at(&bytes, 44), time.0, time.1)
        } else {
            let owner = (u16_at(&bytes, 24).into(), u16_at(&bytes, 26).into());
            let links = u16_at(&bytes, 6).into();
            (owner.0, owner.1, links, build_seconds, build_nanoseconds)
        };
        Ok(Inode {
            nid,
            kind,
            mode: mode & 0o7777,
            uid,
            gid,
            links,
            mtime: Timestamp {
                seconds: seconds as i64,
                nanoseconds,
            },
            size,
            device: field,
            layout: self.layout(kind, format >> 1, size, field, behind)?,
            xattrs: (xattrs, xattr_length),
        })
    }

    fn layout(
        &self,
        kind: Kind,
        layout: u16,
        size: u64,
        field: u32,
        behind: u64,
    ) -> Result<Layout> {
        if !matches!(kind, Kind::File | Kind::Directory | Kind::Symlink) {
            return Ok(Layout::Blocks(0));
        }
        let blocks = u64::from(field) << self.block_bits;
        let within = |begin: u64, length: u64| {
            let end = begin.checked_add(length);
            if length == 0 || end.is_some_and(|end| end <= self.length) {
                Ok(())
            } else {
                Err(Error::Corrupt(
                    "the content of a file is beyond the end of the image",
                ))
            }
        };
        match layout {
            FLAT_PLAIN => {
                within(blocks, size)?;
                Ok(Layout::Blocks(blocks))
            }
            FLAT_INLINE => {
                let length = size % self.block();
                if length == 0 && size > 0 {
                    return Err(Error::Corrupt("the inline tail of a file is missing"));
                }
                within(blocks, size - length)?;
                within(behind, length)?;
                if behind % self.block() + length > self.block() {
                    return Err(Error::Corrupt(
                        "the inline tail of a file crosses a block boundary",
                    ));
                }
                let tail = behind;
                Ok(Layout::Tail { blocks, tail })
            }
            CHUNK_BASED if kind == Kind::File => {
                let format = field as u16;
                if format & !(CHUNK_BITS | CHUNK_INDEXES) != 0 {
                    return Err(Error::Unsupported("chunks with an unknown format"));
                }
                let width = if format & CHUNK_INDEXES == 0 {
                    4_u64
                } else {
                    8
                };
                let bits = u32::from(self.block_bits) + u32::from(format & CHUNK_BITS);
                let table = behind.next_multiple_of(width);
                // The size is less than 2^63, a chunk at least 2^9.
                within(table, size.div_ceil(1 << bits) * width)?;
                Ok(Layout::Chunks { bits, table, width })
            }
            CHUNK_BASED => Err(Error::Unsupported("chunk-based directories or links")),
            1 | 3 => Err(Error::Unsupported("compressed files")),
            _ => Err(Error::Unsupported("files with an unknown layout")),
        }
    }
}

/// Returns the size of the extended attributes from the count field of an inode.
fn xattr_length(count: u16) -> u32 {
    match count {
        0 => 0,
        count => XATTR_HEADER as u32 + (u32::from(count) - 1) * XATTR_ENTRY as u32,
    }
}
