//! Why an image cannot be written.

use std::io;

/// What this crate's calls return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What there can be too much of in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Names in its directories.
    Entries(u32),
    /// Bytes of these names.
    NameBytes(u64),
    /// Bytes of all extended attributes that were ever given.
    XattrBytes(u64),
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Entries(limit) => write!(f, "{limit} entries"),
            Self::NameBytes(limit) => write!(f, "{limit} bytes of names"),
            Self::XattrBytes(limit) => write!(f, "{limit} bytes of extended attributes"),
        }
    }
}

/// Why something could not be put into an image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image's file could not be written.
    #[error("writing the image")]
    Write(#[source] io::Error),
    /// There is more than the image's maker allows.
    #[error("more than {0} in one image")]
    TooMany(Limit),
    /// A part of a path is no name.
    #[error("{:?} is not a file name", String::from_utf8_lossy(.0))]
    Name(Vec<u8>),
    /// A path is that of the root, which can be nothing but a directory.
    #[error("the root of an image is a directory")]
    Root,
    /// Nothing is at a path that should lead on, or to something.
    #[error("{:?} does not exist", String::from_utf8_lossy(.0))]
    NotFound(Vec<u8>),
    /// Something on the way is no directory.
    #[error("{:?} is not a directory", String::from_utf8_lossy(.0))]
    NotADirectory(Vec<u8>),
    /// A directory cannot have a second name.
    #[error("{:?} is a directory and cannot be hard linked", String::from_utf8_lossy(.0))]
    LinkToDirectory(Vec<u8>),
    /// The file system keeps no attribute of this name.
    #[error("the extended attribute {:?} cannot be stored", String::from_utf8_lossy(.0))]
    XattrName(Vec<u8>),
    /// An attribute, or all those of an inode, are longer than the file system can say.
    #[error("the extended attributes of one file are too large at {:?}", String::from_utf8_lossy(.0))]
    XattrSize(Vec<u8>),
    /// The target of a symbolic link is empty, has a NUL or is too long.
    #[error("the target of a symbolic link ({0} bytes) is empty, too long or contains a NUL byte")]
    Target(usize),
    /// The numbers of a device are larger than the file system can say.
    #[error("the device numbers {0}, {1} are out of range")]
    Device(u32, u32),
    /// Content came for a place that is behind what was written, or past the file's end.
    #[error(
        "cannot write content at offset {offset}: {written} of {size} bytes of the file are written"
    )]
    Order {
        /// Where the content belongs.
        offset: u64,
        /// How far the file is written.
        written: u64,
        /// How long it was said to be.
        size: u64,
    },
    /// A file is longer than can be noted.
    #[error("a file of {0} bytes is too large")]
    FileSize(u64),
    /// The image would be larger than its addresses reach.
    #[error("the image is larger than 16 TiB")]
    ImageSize,
    /// Writing failed before, so that the image has a hole.
    #[error("the image is incomplete because an earlier write failed")]
    Broken,
}
