//! Attributes of inodes.

use std::collections::BTreeMap;

/// Extended attributes: full names and values.
pub type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A character device; with the numbers 0, an overlay's whiteout.
    Character,
    /// A block device.
    Block,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A symbolic link.
    Symlink,
}

/// A time since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds to add, less than a second.
    pub nanoseconds: u32,
}

/// Owner, permissions and further attributes of an inode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions, with setuid, setgid and sticky; other bits are ignored.
    pub mode: u16,
    /// The user ID.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The modification time of the content.
    pub mtime: Timestamp,
    /// Extended attributes.
    pub xattrs: Xattrs,
}
