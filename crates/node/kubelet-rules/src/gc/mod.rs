//! Garbage collection of dead containers, dead sandboxes and unused images.

mod containers;
mod images;
mod sandboxes;

pub use containers::{ContainerPolicy, DeadContainer, PodFate, containers_to_remove};
pub use images::{DiskUsage, ImagePolicy, ImageRecord, bytes_to_free, images_to_remove};
pub use sandboxes::{Sandbox, sandboxes_to_remove};
