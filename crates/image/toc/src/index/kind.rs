//! What kinds of file there are, and their bits in a mode.

/// What an entry of a layer is.
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
    /// Not a file: what lower layers have by this name is gone.
    Whiteout,
}

/// The bits of a mode that say what a file is (Linux, `S_IFMT`).
const TYPE: u16 = 0o170_000;
/// The bits that say who may do what.
pub(crate) const PERMISSIONS: u16 = 0o7777;

const BITS: [(Kind, u16); 7] = [
    (Kind::File, 0o100_000),
    (Kind::Directory, 0o040_000),
    (Kind::Symlink, 0o120_000),
    (Kind::Character, 0o020_000),
    (Kind::Block, 0o060_000),
    (Kind::Fifo, 0o010_000),
    // Of no type of Linux's.
    (Kind::Whiteout, 0),
];

impl Kind {
    /// Its bits in a mode; none for a whiteout.
    pub fn bits(self) -> u16 {
        let found = BITS.iter().find(|(kind, _)| *kind == self);
        found.map_or(0, |(_, bits)| *bits)
    }

    /// What a mode's bits say.
    pub(crate) fn of(mode: u16) -> Option<Self> {
        let found = BITS.iter().find(|(_, bits)| *bits == mode & TYPE);
        found.map(|(kind, _)| *kind)
    }

    /// What a table of contents calls it: all three formats have the same names.
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
