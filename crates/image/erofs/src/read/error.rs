//! Why an image cannot be read.

use std::io;

/// What this module's calls return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an image, or something in it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image itself could not be read.
    #[error("reading the image")]
    Io(#[from] io::Error),
    /// It is no EROFS image.
    #[error("this is not an EROFS image")]
    NotErofs,
    /// It has what is not read here, though the kernel may.
    #[error("the image has {0}, which are not supported")]
    Unsupported(&'static str),
    /// It contradicts itself.
    #[error("the image is corrupt: {0}")]
    Corrupt(&'static str),
    /// Something other than a directory was to be listed, or than a link followed, and so on.
    #[error("this is not {0}")]
    Not(&'static str),
    /// It has more than is allowed.
    #[error("the image has more than {0} {1}")]
    TooMany(u64, &'static str),
}
