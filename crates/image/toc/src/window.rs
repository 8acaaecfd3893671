//! The deflate window: the content before a position of a gzip stream, which decompression from there requires.

/// Size of the deflate window (RFC 1951).
pub(crate) const WINDOW: usize = 32 << 10;
/// The content before a position of a stream; padded with zeros at the stream's start.
pub(crate) type Window = [u8; WINDOW];
