//! The containerd namespace that shims receive.

/// The containerd namespace for shims, which separates clients.
pub(crate) const NAMESPACE: &str = "orlop";
