//! The containerd namespace that shims receive.

/// The namespace that the shim is told; it keeps apart what several clients have.
pub(crate) const NAMESPACE: &str = "orlop";
