//! Annotations of an encrypted layer.

/// Prefix of the annotations with a layer's wrapped keys.
pub const KEYS: &str = "org.opencontainers.image.enc.keys.";
/// The annotation with the public options of a layer's encryption.
pub const PUBLIC_OPTIONS: &str = "org.opencontainers.image.enc.pubopts";
