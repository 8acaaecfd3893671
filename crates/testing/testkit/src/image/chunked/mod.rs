//! Layers with an embedded table of contents for lazy pulling: eStargz and zstd:chunked.

mod cut;
mod footer;
mod layer;
mod order;
mod packer;
mod writer;

pub use cut::{Chunked, Cut};
pub use layer::ChunkedLayer;
pub use writer::ChunkedWriter;
