//! One entry of an archive.

/// An entry of an archive: its name, type, attributes and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name as in the archive; any bytes except NUL.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: EntryKind,
    /// Permission bits with setuid, setgid and sticky.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Mtime,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The types of entries that a layer may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File {
        /// Bytes in the archive.
        stored: u64,
        /// The map of the data, if the file is sparse.
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

/// A sparse file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SparseFile {
    /// The size including holes.
    pub(crate) size: u64,
    /// The parts that have data, ascending.
    pub(crate) segments: Vec<Segment>,
}

/// A run of data in a sparse file.
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
