//! What an inode is besides its content.

use std::collections::BTreeMap;

/// Extended attributes: their full names, and their values.
pub type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A character device; an overlay's whiteout, where its numbers are 0.
    Character,
    /// A block device.
    Block,
    /// A named pipe.
    Fifo,
    /// The name of a socket.
    Socket,
    /// A symbolic link.
    Symlink,
}

/// When something was changed, since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds; before 1970 they are negative.
    pub seconds: i64,
    /// What is to be added to them, less than a second.
    pub nanoseconds: u32,
}

/// Who owns an inode, who may do what with it, and what else is noted of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions, with setuid, setgid and sticky; other bits are left out.
    pub mode: u16,
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// When the content was changed.
    pub mtime: Timestamp,
    /// Extended attributes.
    pub xattrs: Xattrs,
}
