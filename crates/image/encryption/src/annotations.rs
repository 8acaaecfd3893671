//! The annotations of an encrypted layer.

/// By which annotations a layer says for whom it is encrypted begin.
pub const KEYS: &str = "org.opencontainers.image.enc.keys.";
/// The annotation with what is no secret of its encryption.
pub const PUBLIC_OPTIONS: &str = "org.opencontainers.image.enc.pubopts";
