//! Totals and digest of an unpacked layer.

use crate::Digest;

/// Totals and digest of an unpacked layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Digest of the archive, once all of it was read.
    pub(crate) diff_id: Option<Digest>,
    /// Size of the archive.
    pub(crate) archive_bytes: u64,
    /// Size of all file contents.
    pub(crate) bytes: u64,
    /// Disk space of the files, in whole blocks.
    pub(crate) disk_bytes: u64,
    /// Number of files, directories and other entries.
    pub(crate) inodes: u64,
    /// Directories below the root that the archive uses without describing them. They take their attributes from the
    /// layers below.
    pub(crate) implicit: Vec<Vec<u8>>,
}
