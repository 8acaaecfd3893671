//! SOCI: an index beside an image with checkpoints of its plain gzip layers.

mod deflate;
pub mod flat;
mod index;
mod ztoc;

pub use deflate::{Boundary, boundaries};
pub(super) use index::{INDEX_DIGEST, index};
pub use ztoc::{ZtocParts, ztoc};
