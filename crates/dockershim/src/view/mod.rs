//! Conversion of the engine's objects to the CRI.

mod container;
mod features;
mod image;
mod sandbox;

pub(crate) use container::{container, container_status, matches_state};
pub(crate) use features::{handlers, recursive_read_only};
pub(crate) use image::{image, listed_image, names};
pub(crate) use sandbox::{ghost, sandbox, sandbox_status};
