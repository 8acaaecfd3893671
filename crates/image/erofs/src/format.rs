//! The numbers of the format: `fs/erofs/erofs_fs.h` of Linux.

use crate::attributes::Kind;

/// The size of a block, as a power of two.
pub(crate) const BLOCK_BITS: u8 = 12;
/// The size of a block of the images that are written.
pub(crate) const BLOCK: u64 = 1 << BLOCK_BITS;
/// What inodes are aligned to, and what their numbers count.
pub(crate) const SLOT: u64 = 32;
/// Where the superblock is.
pub(crate) const SUPER_OFFSET: usize = 1024;
/// How long the superblock is.
pub(crate) const SUPER_SIZE: usize = 128;
pub(crate) const MAGIC: u32 = 0xe0f5_e1e2;

/// The superblock has a checksum.
pub(crate) const COMPAT_CHECKSUM: u32 = 0x1;
/// The times of inodes are those of modification.
pub(crate) const COMPAT_MTIME: u32 = 0x2;
/// Compressed data ends where its cluster does.
pub(crate) const INCOMPAT_ZERO_PADDING: u32 = 0x1;
/// There are inodes of chunks.
pub(crate) const INCOMPAT_CHUNKED: u32 = 0x4;

/// An inode of 64 bytes.
pub(crate) const INODE: usize = 64;
/// An inode of 32 bytes.
pub(crate) const COMPACT_INODE: usize = 32;
/// Where an inode of 64 bytes has the number of its names.
pub(crate) const INODE_LINKS: u64 = 44;

/// The content is in whole blocks.
pub(crate) const FLAT_PLAIN: u16 = 0;
/// The content's last part follows the inode.
pub(crate) const FLAT_INLINE: u16 = 2;
/// A table of addresses follows the inode.
pub(crate) const CHUNK_BASED: u16 = 4;
/// Of a chunk's size as a power of two, how many blocks it has.
pub(crate) const CHUNK_BITS: u16 = 0x1f;
/// The table has eight bytes for each chunk.
pub(crate) const CHUNK_INDEXES: u16 = 0x20;
/// The address of a chunk that is a hole.
pub(crate) const NO_ADDRESS: u32 = u32::MAX;

/// What stands before the attributes behind an inode.
pub(crate) const XATTR_HEADER: usize = 12;
/// What stands before an attribute's name, and what attributes are aligned to.
pub(crate) const XATTR_ENTRY: usize = 4;
/// Namespaces of attributes: what their names begin with, and the number that stands for it.
pub(crate) const XATTR_PREFIXES: [(u8, &[u8]); 5] = [
    (1, b"user."),
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (4, b"trusted."),
    (6, b"security."),
];

/// An entry of a directory, without its name.
pub(crate) const DIRENT: usize = 12;
/// How long a name may be.
pub(crate) const NAME: usize = 255;
/// How long the target of a symbolic link may be.
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
    /// The number by which directories name it.
    pub(crate) fn file_type(self) -> u8 {
        KINDS[self as usize].1
    }

    /// The bits of a mode that say it.
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

/// A device's numbers as the kernel packs them into 32 bits: 12 for the major, 20 for the minor.
pub(crate) fn device(major: u32, minor: u32) -> Option<u32> {
    (major < 1 << 12 && minor < 1 << 20)
        .then_some((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12))
}

/// The numbers of a device that was packed so.
pub(crate) fn device_numbers(packed: u32) -> (u32, u32) {
    (
        (packed >> 8) & 0xfff,
        (packed & 0xff) | ((packed >> 12) & 0xf_ff00),
    )
}

/// The block that a byte of the image begins, if addresses reach as far.
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
