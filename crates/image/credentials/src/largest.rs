//! How much is read of what may have credentials.

/// Larger files are none of credentials.
pub const LARGEST: u64 = 1 << 20;
