//! Root file systems as detached mounts: they belong to a file descriptor, not to the host's
//! mount table.

mod attributes;
mod overlay;

pub use overlay::OverlayMount;
