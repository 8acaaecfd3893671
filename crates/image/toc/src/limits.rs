//! How much a table of contents may cost.

/// What is not exceeded while a table of contents is read, whatever it says.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a table of contents as it is fetched.
    pub fetched: u64,
    /// Bytes of it when it is decompressed. They are never held all at once.
    pub table: u64,
    /// Entries, with the directories that are only named by what is in them.
    pub entries: u32,
    /// Chunks of files, or spans of the layer.
    pub chunks: u32,
    /// Bytes that a chunk or span is decompressed to, with what has to be skipped before it.
    pub chunk: u32,
    /// Directories in each other.
    pub depth: u16,
    /// Bytes of one entry's extended attributes.
    pub xattrs: u32,
    /// Bytes of all names, link targets and extended attributes.
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

/// The longest name of a file (Linux, `NAME_MAX`).
pub(crate) const NAME_MAX: usize = 255;
/// The longest path, and target of a symbolic link (Linux, `PATH_MAX` without the NUL).
pub(crate) const PATH_MAX: usize = 4095;
