//! The size and the digest of an unpacked layer.

use crate::Digest;

/// What an unpacked layer amounts to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// The archive's digest, once all of it was read.
    pub(crate) diff_id: Option<Digest>,
    /// Bytes of the archive.
    pub(crate) archive_bytes: u64,
    /// Bytes of file content.
    pub(crate) bytes: u64,
    /// Bytes that the files take on disk, in whole blocks.
    pub(crate) disk_bytes: u64,
    /// Files, directories and all else.
    pub(crate) inodes: u64,
    /// Directories below the root that the archive uses without describing them: what they
    /// look like is up to the layers below.
    pub(crate) implicit: Vec<Vec<u8>>,
}
