//! What containers and pods use, in CRI's words.

mod container;
mod meter;
pub mod metrics;
mod network;
mod pod;
mod writable_layer;

pub use container::of_container;
pub use meter::Meter;
pub use pod::of_pod;
