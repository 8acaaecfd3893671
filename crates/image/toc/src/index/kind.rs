//! File types and their mode bits.

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    Character,
    /// A block device.
    Block,
    /// A named pipe.
    Fifo,
    /// A whiteout: removes the file of lower layers with this name.
    Whiteout,
}

/// The type bits of a mode (Linux, `S_IFMT`).
const TYPE: u16 = 0o170_000;
/// The permission bits of a mode.
pub(crate) const PERMISSIONS: u16 = 0o7777;

const BITS: [(Kind, u16); 7] = [
    (Kind::File, 0o100_000),
    (Kind::Directory, 0o040_000),
    (Kind::Symlink, 0o120_000),
    (Kind::Character, 0o020_000),
    (Kind::Block, 0o060_000),
    (Kind::Fifo, 0o010_000),
    // Not a file type of Linux.
    (Kind::Whiteout, 0),
];

impl Kind {
    /// Returns the type bits of a mode; 0 for a whiteout.
    pub fn bits(self) -> u16 {
        let found = BITS.iter().find(|(kind, _)| *kind == self);
        found.map_or(0, |(_, bits)| *bits)
    }

    /// Returns the type in a mode.
    pub(crate) fn of(mode: u16) -> Option<Self> {
        let found = BITS.iter().find(|(_, bits)| *bits == mode & TYPE);
        found.map(|(kind, _)| *kind)
    }

    /// Returns the type with this name in a table of contents; all three formats use the same names.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"reg" => Self::File,
            b"dir" => Self::Directory,
            b"symlink" => Self::Symlink,
            b"char" => Self::Character,
            b"block" => Self::Block,
            b"fifo" => Self::Fifo,
            _ => return None,
        })
    }
}
