//! Image stores of other runtimes.

mod containerd;
mod docker;
mod image;
mod layout;
mod storage;
#[cfg(test)]
mod tests;

pub use containerd::containerd_images;
pub use docker::docker_images;
pub use image::StoredImage;
pub use storage::storage_images;

/// Returns how many images a containerd database names.
pub(crate) fn fuzzed_names(bolt: &crate::bolt::Bolt<&[u8]>) -> usize {
    let names = containerd::names_in(bolt, "k8s.io");
    names.map_or(0, |names| names.map_or(0, |names| names.len()))
}
