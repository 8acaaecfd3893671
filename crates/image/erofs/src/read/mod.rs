//! Images that others made: judged and read, with nothing mounted.
//!
//! Nothing in an image is believed. All numbers are checked against its length, nothing is allocated by
//! what it says beyond fixed sizes, and no call recurses.

mod bytes;
mod check;
mod content;
mod directory;
mod error;
mod inode;
mod reader;
mod source;
mod xattr;

pub use check::{Census, Limits};
pub use directory::{Entries, Entry};
pub use error::{Error, Result};
pub use inode::Inode;
pub use reader::Reader;
pub use source::Source;
