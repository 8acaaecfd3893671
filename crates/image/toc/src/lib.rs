//! Tables of contents of layers that are fetched on demand.
//!
//! A layer can be mounted before it is fetched if a table says which files it has and which of its bytes contain each
//! file. Three formats do: eStargz, zstd:chunked, and SOCI's index of plain gzip layers. This crate converts each of
//! them to an [`Index`]: verified, bounded, and in a flat format that is written to a file and mapped from there.
//!
//! 1. A [`Claim`] is the information in a layer's annotations; an [`soci::Manifest`] is separate from the image.
//! 2. From it, in some formats with the layer's footer, follows a [`Toc`]: the bytes to fetch, and their digest.
//! 3. [`Toc::parse`] builds the [`Index`] from these bytes.
//! 4. [`Index::extents`] returns the [`Chunk`]s of a file. [`Chunk::open`] converts fetched bytes to the file's
//!    content, or refuses them.
//!
//! The crate uses no network, disk or clock. All of its input is untrusted.

mod chunk;
mod claim;
mod digest;
mod error;
mod index;
mod json;
mod limits;
pub mod soci;
mod toc;
mod tree;
mod window;
mod ztoc;

#[cfg(test)]
mod tests;

pub use chunk::{Chunk, OpenError};
pub use claim::{Claim, Compression, Step};
pub use digest::Digest;
pub use error::{Error, Problem, Result};
pub use index::{Content, Damaged, Extent, Index, Kind, Mtime, Named, Node, ROOT, Xattr};
pub use limits::Limits;
pub use toc::Toc;
