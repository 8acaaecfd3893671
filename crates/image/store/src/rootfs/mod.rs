//! Root filesystems as detached mounts: they belong to a file descriptor, not to the host's mount table.

pub(crate) mod attributes;
mod overlay;

pub use overlay::OverlayMount;
