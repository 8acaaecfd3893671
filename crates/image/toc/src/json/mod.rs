//! Table of contents of eStargz and zstd:chunked, in their common JSON format.
//!
//! An object has a version, 1, and entries. A file of several chunks is an entry of type `reg`, which is the first
//! chunk, directly followed by entries of type `chunk`. The digest of a chunk is that of its content.

mod content;
mod entry;
mod meter;
mod read;

pub(crate) use content::Blob;
pub(crate) use read::index;
