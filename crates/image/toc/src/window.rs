//! The content before some place of a gzip stream, without which what follows cannot be decompressed.

/// What deflate may look back (RFC 1951).
pub(crate) const WINDOW: usize = 32 << 10;
/// The content before some place of a stream; zeros where there was less.
pub(crate) type Window = [u8; WINDOW];
