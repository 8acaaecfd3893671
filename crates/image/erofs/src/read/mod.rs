//! Reader and check of untrusted images, without a mount.
//!
//! All numbers in an image are checked against its length. Allocations have fixed maximum sizes, and no function is
//! recursive.

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
