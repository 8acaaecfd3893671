//! What a layer's annotations and its last bytes say of its table of contents.

mod annotations;
pub(crate) mod footer;
mod position;

pub use annotations::{Claim, Compression, Step};
