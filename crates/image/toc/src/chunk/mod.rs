//! Chunks: what is fetched and verified as one.

mod inflate;
mod open;
mod preamble;

pub use open::{Chunk, OpenError};
pub(crate) use open::{How, frames};
