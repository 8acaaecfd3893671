//! SOCI: an index beside an image that says how its plain gzip layers can be entered.

mod deflate;
pub mod flat;
mod index;
mod ztoc;

pub use deflate::{Boundary, boundaries};
pub(super) use index::{INDEX_DIGEST, index};
pub use ztoc::{ZtocParts, ztoc};
