//! Size limit of credentials files.

/// Maximum size of a credentials file.
pub const LARGEST: u64 = 1 << 20;
