//! Claims about the table of contents, from a layer's annotations and its footer.

mod annotations;
pub(crate) mod footer;
mod position;

pub use annotations::{Claim, Compression, Step};
