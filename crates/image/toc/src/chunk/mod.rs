//! Chunks: the units that are fetched and verified.

mod inflate;
mod open;
mod preamble;

pub use open::{Chunk, OpenError};
pub(crate) use open::{How, frames};
