//! EROFS, the read-only file system of Linux, without compression.
//!
//! [`Image`] writes one while the contents of its files arrive: nothing of them stays in memory, and no
//! system call is made for a small file. [`read`] judges and reads images that others made; [`mount`]
//! has the kernel mount one from its file.
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
