//! In which form a layer is packed, and how it is cut.

use crate::image::Compression;

/// The forms of a layer that have its table of contents in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunked {
    /// gzip, with the table in an entry of the archive.
    EStargz,
    /// The same, with the shorter footer of the first writers.
    OldStargz,
    /// Zstandard, as Go's storage library writes it.
    ZstdChunked,
    /// Zstandard, as those write it who write eStargz, too: the manifest does not say where the table is.
    StargzZstd,
}

impl Chunked {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::EStargz,
        Self::OldStargz,
        Self::ZstdChunked,
        Self::StargzZstd,
    ];

    /// How such a layer is compressed.
    pub fn compression(self) -> Compression {
        match self {
            Self::EStargz | Self::OldStargz => Compression::Gzip,
            Self::ZstdChunked | Self::StargzZstd => Compression::Zstd,
        }
    }
}

/// How a layer is cut into chunks.
#[derive(Debug, Clone)]
pub struct Cut {
    pub(super) chunk: usize,
    pub(super) member: usize,
    pub(super) level: u32,
    pub(crate) first: Vec<String>,
    pub(crate) landmarks: bool,
}

impl Cut {
    /// Chunks of up to 4 MiB, each compressed on its own, as fast as can be.
    pub fn new() -> Self {
        Self {
            chunk: 4 << 20,
            member: 0,
            level: 1,
            first: Vec::new(),
            landmarks: true,
        }
    }

    /// Chunks of up to so many bytes of a file.
    pub fn chunk(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "a chunk has bytes");
        self.chunk = bytes;
        self
    }

    /// Chunks stand behind each other in one member until it has so many bytes (not [`Chunked::ZstdChunked`]).
    pub fn member(mut self, bytes: usize) -> Self {
        self.member = bytes;
        self
    }

    /// How well it is compressed: of gzip 0 (not at all) to 9, of Zstandard 1 to 22.
    pub fn level(mut self, level: u32) -> Self {
        self.level = level;
        self
    }

    /// What is wanted soon, by its path in the archive. It comes first, with the directories that it is in and what
    /// it is a hard link to, and the landmark comes behind it (not [`Chunked::ZstdChunked`]).
    pub fn first(mut self, paths: &[&str]) -> Self {
        self.first
            .extend(paths.iter().map(|path| (*path).to_owned()));
        self
    }

    /// Leaves out the landmark that says what is wanted soon, or that nothing is.
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
