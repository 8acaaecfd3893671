//! EROFS, the read-only file system of Linux, without compression.
//!
//! [`Image`] writes an image while the contents of its files arrive. Contents do not stay in memory, and a small file
//! needs no system call. [`read`] checks and reads untrusted images; [`mount`] mounts an image from its file.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod attributes;
mod crc;
mod directory;
mod error;
mod file;
mod finish;
mod format;
mod image;
mod inode;
pub mod mount;
mod pack;
pub mod read;
mod stream;
mod tree;
mod xattr;

pub use attributes::{Attributes, Kind, Timestamp, Xattrs};
pub use error::{Error, Limit, Result};
pub use file::{FileWriter, Pending};
pub use finish::Summary;
pub use image::{Image, Options};
pub use xattr::is_xattr_name;
