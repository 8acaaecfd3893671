//! One member of an archive, fully described.

/// A member of an archive: what it is called, what it is and what it carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name as the archive has it; any bytes but NUL.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: EntryKind,
    /// Permission bits with setuid, setgid and sticky.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Mtime,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The kinds of members that a layer may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File {
        /// Bytes in the archive.
        stored: u64,
        /// Where they go, if the file has holes.
        sparse: Option<SparseFile>,
    },
    HardLink(Vec<u8>),
    Symlink(Vec<u8>),
    CharDevice {
        major: u32,
        minor: u32,
    },
    BlockDevice {
        major: u32,
        minor: u32,
    },
    Directory,
    Fifo,
}

/// A file with holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SparseFile {
    /// The size with its holes.
    pub(crate) size: u64,
    /// The parts that have data, ascending.
    pub(crate) segments: Vec<Segment>,
}

/// A run of data in a file with holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mtime {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
}
