//! Layers with a table of contents in them, which can be fetched bit by bit: eStargz and zstd:chunked.

mod cut;
mod footer;
mod layer;
mod order;
mod packer;
mod writer;

pub use cut::{Chunked, Cut};
pub use layer::ChunkedLayer;
pub use writer::ChunkedWriter;
