//! Limits on the cost of a table of contents.

/// Limits that hold for any table of contents.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum fetched size of a table of contents.
    pub fetched: u64,
    /// Maximum decompressed size. The table is never completely in memory.
    pub table: u64,
    /// Maximum number of entries, including directories without an entry of their own.
    pub entries: u32,
    /// Maximum number of chunks of files, or spans of the layer.
    pub chunks: u32,
    /// Maximum decompressed size of a chunk or span, including skipped bytes before it.
    pub chunk: u32,
    /// Maximum depth of directories.
    pub depth: u16,
    /// Maximum size of one entry's extended attributes.
    pub xattrs: u32,
    /// Maximum size of all names, link targets and extended attributes.
    pub texts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fetched: 128 << 20,
            table: 256 << 20,
            entries: 1 << 20,
            chunks: 1 << 21,
            chunk: 16 << 20,
            depth: 256,
            xattrs: 128 << 10,
            texts: 256 << 20,
        }
    }
}

/// Maximum length of a file name (Linux, `NAME_MAX`).
pub(crate) const NAME_MAX: usize = 255;
/// Maximum length of a path or symbolic link target (Linux, `PATH_MAX` without the NUL).
pub(crate) const PATH_MAX: usize = 4095;
