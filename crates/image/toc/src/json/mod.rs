//! The table of contents of eStargz and zstd:chunked: JSON, of a form that both have.
//!
//! An object of a version, 1, and entries. A file of several chunks is an entry of type `reg`, the first chunk, and
//! right behind it those of type `chunk`. The digest of a chunk is of its content.

mod content;
mod entry;
mod meter;
mod read;

pub(crate) use content::Blob;
pub(crate) use read::index;
