//! Formats of layers for lazy pulling, and their division into chunks.

use crate::image::Compression;

/// Formats with an embedded table of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunked {
    /// gzip, with the table as an entry of the archive.
    EStargz,
    /// The same, with the shorter footer of early versions.
    OldStargz,
    /// Zstandard, as written by Go's storage library.
    ZstdChunked,
    /// Zstandard, as written by eStargz tools: the manifest does not contain the position of the table.
    StargzZstd,
}

impl Chunked {
    /// All formats.
    pub const ALL: [Self; 4] = [
        Self::EStargz,
        Self::OldStargz,
        Self::ZstdChunked,
        Self::StargzZstd,
    ];

    /// Returns the compression of the format.
    pub fn compression(self) -> Compression {
        match self {
            Self::EStargz | Self::OldStargz => Compression::Gzip,
            Self::ZstdChunked | Self::StargzZstd => Compression::Zstd,
        }
    }
}

/// Division of a layer into chunks.
#[derive(Debug, Clone)]
pub struct Cut {
    pub(super) chunk: usize,
    pub(super) member: usize,
    pub(super) level: u32,
    pub(crate) first: Vec<String>,
    pub(crate) landmarks: bool,
}

impl Cut {
    /// Chunks of up to 4 MiB, each compressed separately, at the fastest level.
    pub fn new() -> Self {
        Self {
            chunk: 4 << 20,
            member: 0,
            level: 1,
            first: Vec::new(),
            landmarks: true,
        }
    }

    /// Sets the maximum chunk size in bytes.
    pub fn chunk(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "a chunk has bytes");
        self.chunk = bytes;
        self
    }

    /// Combines chunks in one compressed member until it has this many bytes (not [`Chunked::ZstdChunked`]).
    pub fn member(mut self, bytes: usize) -> Self {
        self.member = bytes;
        self
    }

    /// Sets the compression level: 0 (none) to 9 for gzip, 1 to 22 for Zstandard.
    pub fn level(mut self, level: u32) -> Self {
        self.level = level;
        self
    }

    /// Sets the prioritized files by their paths in the archive. They come first, with their directories and hard link
    /// targets, followed by the landmark (not [`Chunked::ZstdChunked`]).
    pub fn first(mut self, paths: &[&str]) -> Self {
        self.first
            .extend(paths.iter().map(|path| (*path).to_owned()));
        self
    }

    /// Omits the landmark, which marks the prioritized files or their absence.
    pub fn without_landmark(mut self) -> Self {
        self.landmarks = false;
        self
    }
}

impl Default for Cut {
    fn default() -> Self {
        Self::new()
    }
}
