//! What containers and pods use, in CRI's words.

mod container;
pub mod metrics;
mod pod;
pub mod within;

pub use container::{of_container, written_paths};
pub use pod::of_pod;
