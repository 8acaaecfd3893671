//! Errors of reading an image.

use std::io;

/// The result type of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of reading an image or a part of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading the source failed.
    #[error("reading the image")]
    Io(#[from] io::Error),
    /// The source is not an EROFS image.
    #[error("this is not an EROFS image")]
    NotErofs,
    /// The image uses a feature that this crate does not support, although the kernel may.
    #[error("the image has {0}, which are not supported")]
    Unsupported(&'static str),
    /// The image is inconsistent.
    #[error("the image is corrupt: {0}")]
    Corrupt(&'static str),
    /// The file has the wrong type, for example a directory was expected.
    #[error("this is not {0}")]
    Not(&'static str),
    /// A limit is exceeded.
    #[error("the image has more than {0} {1}")]
    TooMany(u64, &'static str),
}
