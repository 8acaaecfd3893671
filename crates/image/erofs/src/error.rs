//! Errors of writing an image.

use std::io;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A limit of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Number of names in its directories.
    Entries(u32),
    /// Number of bytes of these names.
    NameBytes(u64),
    /// Number of bytes of all extended attributes, including those of replaced files.
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

/// An error of adding something to an image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image's file could not be written.
    #[error("writing the image")]
    Write(#[source] io::Error),
    /// A limit that the caller set is exceeded.
    #[error("more than {0} in one image")]
    TooMany(Limit),
    /// A component of a path is not a valid name.
    #[error("{:?} is not a file name", String::from_utf8_lossy(.0))]
    Name(Vec<u8>),
    /// The path is that of the root, which must be a directory.
    #[error("the root of an image is a directory")]
    Root,
    /// A component of the path does not exist.
    #[error("{:?} does not exist", String::from_utf8_lossy(.0))]
    NotFound(Vec<u8>),
    /// A component of the path is not a directory.
    #[error("{:?} is not a directory", String::from_utf8_lossy(.0))]
    NotADirectory(Vec<u8>),
    /// A directory cannot have a second name.
    #[error("{:?} is a directory and cannot be hard linked", String::from_utf8_lossy(.0))]
    LinkToDirectory(Vec<u8>),
    /// The file system does not support attributes with this name.
    #[error("the extended attribute {:?} cannot be stored", String::from_utf8_lossy(.0))]
    XattrName(Vec<u8>),
    /// An attribute, or all those of an inode, exceed the maximum size of the format.
    #[error("the extended attributes of one file are too large at {:?}", String::from_utf8_lossy(.0))]
    XattrSize(Vec<u8>),
    /// The target of a symbolic link is empty, has a NUL or is too long.
    #[error("the target of a symbolic link ({0} bytes) is empty, too long or contains a NUL byte")]
    Target(usize),
    /// The device numbers exceed the maximum of the format.
    #[error("the device numbers {0}, {1} are out of range")]
    Device(u32, u32),
    /// The content's offset is before the end of the written part, or past the file's end.
    #[error(
        "cannot write content at offset {offset}: {written} of {size} bytes of the file are written"
    )]
    Order {
        /// The offset of the content.
        offset: u64,
        /// The number of written bytes.
        written: u64,
        /// The announced size of the file.
        size: u64,
    },
    /// A file exceeds the maximum size.
    #[error("a file of {0} bytes is too large")]
    FileSize(u64),
    /// The image would exceed the address range of the format.
    #[error("the image is larger than 16 TiB")]
    ImageSize,
    /// An earlier write failed, so that the image is incomplete.
    #[error("the image is incomplete because an earlier write failed")]
    Broken,
}
