//! Access to an image, starting at its superblock.

use super::bytes::{u16_at, u32_at, u64_at};
use super::{Error, Inode, Result, Source};
use crate::attributes::Kind;
use crate::crc::crc32c;
use crate::format::{
    COMPAT_CHECKSUM, INCOMPAT_CHUNKED, INCOMPAT_ZERO_PADDING, MAGIC, SUPER_OFFSET, SUPER_SIZE,
};

/// Features that this reader does not support.
const UNSUPPORTED: [(u32, &str); 8] = [
    (0x02, "compressed files"),
    (0x08, "several devices"),
    (0x10, "compressed files with inline tails"),
    (0x20, "fragments"),
    (0x40, "long prefixes of extended attributes"),
    (0x80, "48-bit addresses"),
    (0x100, "separate metadata areas"),
    (!0x1ff, "features of later versions"),
];

/// An EROFS image without compression, on one device.
#[derive(Debug)]
pub struct Reader<S> {
    pub(super) source: S,
    /// The size of a block, as a power of two.
    pub(super) block_bits: u8,
    /// Number of bytes of the image.
    pub(super) length: u64,
    /// Position from which inode numbers count.
    pub(super) meta: u64,
    /// Position from which numbers of shared attributes count.
    pub(super) shared: u64,
    pub(super) root: u64,
    build_time: u64,
    build_time_nsec: u32,
    uuid: [u8; 16],
}

impl<S: Source> Reader<S> {
    /// Reads and checks the superblock.
    pub fn open(source: S) -> Result<Self> {
        let file_length = source.length()?;
        if file_length < (SUPER_OFFSET + SUPER_SIZE) as u64 {
            return Err(Error::NotErofs);
        }
        let mut block = [0; SUPER_SIZE];
        source.read_at(&mut block, SUPER_OFFSET as u64)?;
        if u32_at(&block, 0) != MAGIC {
            return Err(Error::NotErofs);
        }
        let block_bits = block[12];
        if !(9..=12).contains(&block_bits) {
            return Err(Error::Unsupported(
                "blocks smaller than 512 or larger than 4096 bytes",
            ));
        }
        let features = u32_at(&block, 80);
        let known = INCOMPAT_ZERO_PADDING | INCOMPAT_CHUNKED;
        let unsupported = UNSUPPORTED.iter().find(|(bits, _)| features & bits != 0);
        if let Some((_, what)) = unsupported.filter(|_| features & !known != 0) {
            return Err(Error::Unsupported(what));
        }
        if u16_at(&block, 86) != 0 {
            return Err(Error::Unsupported("several devices"));
        }
        if block[90] != 0 {
            return Err(Error::Unsupported(
                "directory blocks that differ in size from data blocks",
            ));
        }
        let length = u64::from(u32_at(&block, 36)) << block_bits;
        if length > file_length {
            return Err(Error::Corrupt("it is truncated"));
        }
        let reader = Self {
            source,
            block_bits,
            length,
            meta: u64::from(u32_at(&block, 40)) << block_bits,
            shared: u64::from(u32_at(&block, 44)) << block_bits,
            root: u64::from(u16_at(&block, 14)),
            build_time: u64_at(&block, 24),
            build_time_nsec: u32_at(&block, 32),
            uuid: std::array::from_fn(|index| block[48 + index]),
        };
        if u32_at(&block, 8) & COMPAT_CHECKSUM != 0 {
            reader.verify(u32_at(&block, 4))?;
        }
        Ok(reader)
    }

    /// Returns the image's identifier.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns the size of the image; its file may be longer.
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Returns the root directory.
    pub fn root(&self) -> Result<Inode> {
        let root = self.inode(self.root)?;
        match root.kind() {
            Kind::Directory => Ok(root),
            _ => Err(Error::Corrupt("its root is not a directory")),
        }
    }

    /// Returns the inode at a path, given as names; does not follow symbolic links.
    pub fn find(&self, path: &[&[u8]]) -> Result<Option<Inode>> {
        let mut at = self.root()?;
        for name in path {
            if at.kind() != Kind::Directory {
                return Ok(None);
            }
            match self.lookup(&at, name)? {
                Some(entry) => at = self.inode(entry.nid)?,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Returns the timestamp of all inodes without their own.
    pub(super) fn build_time(&self) -> (u64, u32) {
        (self.build_time, self.build_time_nsec)
    }

    pub(super) fn block(&self) -> u64 {
        1 << self.block_bits
    }

    /// Reads bytes that must be within the image.
    pub(super) fn read_bytes(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.length) {
            return Err(Error::Corrupt("an offset is beyond its end"));
        }
        Ok(self.source.read_at(buffer, offset)?)
    }

    /// Verifies the checksum. It covers the first block from the superblock on; with smaller blocks, the bytes of one
    /// block.
    fn verify(&self, expected: u32) -> Result<()> {
        let block = 1_usize << self.block_bits;
        let covered = match block {
            ..=SUPER_OFFSET => block,
            _ => block - SUPER_OFFSET,
        };
        let mut bytes = vec![0; covered];
        self.read_bytes(&mut bytes, SUPER_OFFSET as u64)?;
        bytes[4..8].fill(0);
        if crc32c(&bytes) == expected {
            Ok(())
        } else {
            Err(Error::Corrupt("its checksum is wrong"))
        }
    }
}
