//! Constants of the format, from `fs/erofs/erofs_fs.h` of Linux.

use crate::attributes::Kind;

/// The size of a block, as a power of two.
pub(crate) const BLOCK_BITS: u8 = 12;
/// The size of a block in written images.
pub(crate) const BLOCK: u64 = 1 << BLOCK_BITS;
/// The alignment of inodes, and the unit of their numbers.
pub(crate) const SLOT: u64 = 32;
/// The offset of the superblock.
pub(crate) const SUPER_OFFSET: usize = 1024;
/// The size of the superblock.
pub(crate) const SUPER_SIZE: usize = 128;
pub(crate) const MAGIC: u32 = 0xe0f5_e1e2;

/// The superblock has a checksum.
pub(crate) const COMPAT_CHECKSUM: u32 = 0x1;
/// The timestamps of inodes are modification times.
pub(crate) const COMPAT_MTIME: u32 = 0x2;
/// Compressed data is aligned to the end of its cluster.
pub(crate) const INCOMPAT_ZERO_PADDING: u32 = 0x1;
/// The image has chunk-based inodes.
pub(crate) const INCOMPAT_CHUNKED: u32 = 0x4;

/// The size of an extended inode.
pub(crate) const INODE: usize = 64;
/// The size of a compact inode.
pub(crate) const COMPACT_INODE: usize = 32;
/// The offset of the link count in an extended inode.
pub(crate) const INODE_LINKS: u64 = 44;

/// The content is in complete blocks.
pub(crate) const FLAT_PLAIN: u16 = 0;
/// The last part of the content follows the inode.
pub(crate) const FLAT_INLINE: u16 = 2;
/// A table of chunk addresses follows the inode.
pub(crate) const CHUNK_BASED: u16 = 4;
/// Mask of the number of blocks per chunk, as a power of two.
pub(crate) const CHUNK_BITS: u16 = 0x1f;
/// The table has eight bytes per chunk.
pub(crate) const CHUNK_INDEXES: u16 = 0x20;
/// The address of a hole.
pub(crate) const NO_ADDRESS: u32 = u32::MAX;

/// The size of the header before an inode's extended attributes.
pub(crate) const XATTR_HEADER: usize = 12;
/// The size of the header of an attribute, and the alignment of attributes.
pub(crate) const XATTR_ENTRY: usize = 4;
/// Namespaces of attributes: prefix number and prefix.
pub(crate) const XATTR_PREFIXES: [(u8, &[u8]); 5] = [
    (1, b"user."),
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (4, b"trusted."),
    (6, b"security."),
];

/// The size of a directory entry without its name.
pub(crate) const DIRENT: usize = 12;
/// Maximum length of a name.
pub(crate) const NAME: usize = 255;
/// Maximum length of a symbolic link's target.
pub(crate) const TARGET: usize = 4095;

/// The file types of directory entries and of modes.
const KINDS: [(Kind, u8, u16); 7] = [
    (Kind::File, 1, 0o10_0000),
    (Kind::Directory, 2, 0o04_0000),
    (Kind::Character, 3, 0o02_0000),
    (Kind::Block, 4, 0o06_0000),
    (Kind::Fifo, 5, 0o01_0000),
    (Kind::Socket, 6, 0o14_0000),
    (Kind::Symlink, 7, 0o12_0000),
];

impl Kind {
    /// Returns the file type in directory entries.
    pub(crate) fn file_type(self) -> u8 {
        KINDS[self as usize].1
    }

    /// Returns the type bits of a mode.
    pub(crate) fn mode(self) -> u16 {
        KINDS[self as usize].2
    }

    pub(crate) fn of_file_type(file_type: u8) -> Option<Self> {
        let found = KINDS.iter().find(|(_, number, _)| *number == file_type)?;
        Some(found.0)
    }

    pub(crate) fn of_mode(mode: u16) -> Option<Self> {
        let found = KINDS.iter().find(|(.., bits)| *bits == mode & 0o17_0000)?;
        Some(found.0)
    }
}

/// Packs device numbers into 32 bits like the kernel: 12 for the major, 20 for the minor.
pub(crate) fn device(major: u32, minor: u32) -> Option<u32> {
    (major < 1 << 12 && minor < 1 << 20)
        .then_some((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12))
}

/// Unpacks device numbers.
pub(crate) fn device_numbers(packed: u32) -> (u32, u32) {
    (
        (packed >> 8) & 0xfff,
        (packed & 0xff) | ((packed >> 12) & 0xf_ff00),
    )
}

/// Returns the block that begins at a byte of the image, if it is in the address range.
pub(crate) fn block_at(position: u64) -> Option<u32> {
    let block = u32::try_from(position / BLOCK).ok()?;
    (block != NO_ADDRESS).then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_both_of_its_numbers() {
        for (index, (kind, file_type, mode)) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            assert_eq!(Kind::of_file_type(file_type), Some(kind));
            assert_eq!(Kind::of_mode(mode | 0o7777), Some(kind));
            assert_eq!((kind.file_type(), kind.mode()), (file_type, mode));
        }
        assert_eq!(Kind::of_file_type(0), None);
        assert_eq!(Kind::of_mode(0o644), None);
    }

    #[test]
    fn devices_keep_all_of_their_bits() {
        for numbers in [(0, 0), (1, 3), (4095, 1_048_575), (259, 70_000)] {
            let packed = device(numbers.0, numbers.1).expect("fits");
            assert_eq!(device_numbers(packed), numbers);
        }
        assert_eq!(device(4096, 0), None);
        assert_eq!(device(0, 1 << 20), None);
    }
}
