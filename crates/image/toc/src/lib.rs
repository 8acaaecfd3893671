//! What a layer that is fetched bit by bit holds, and where each bit of it stands.
//!
//! A layer can be mounted before it is there if something says which files it has and which of its bytes each of
//! them is made of. Three formats do: eStargz, zstd:chunked, and SOCI's index of plain gzip layers. What they say
//! becomes one [`Index`]: verified, bounded, and so flat that it is written to a file and mapped from there.
//!
//! 1. A [`Claim`] is what a layer's annotations promise, or an [`soci::Manifest`] what is promised beside it.
//! 2. From it follows, perhaps by the layer's footer, a [`Toc`]: which bytes to fetch, and what they must be.
//! 3. [`Toc::parse`] makes the [`Index`] from them.
//! 4. [`Index::extents`] says of which [`Chunk`]s a file is made; [`Chunk::open`] makes its bytes from what was
//!    fetched, or refuses.
//!
//! There is no network here, no disk, no clock: bytes come in, bytes go out. All of them come from strangers.

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
