//! Resource usage of containers and pods, as CRI messages.

mod container;
pub mod metrics;
mod pod;
pub mod within;

pub use container::{of_container, written_paths};
pub use pod::of_pod;
