//! The file format of a tape.
//!
//! A tape is a zstd stream of runs. Each starts with a byte that says what it is:
//!
//! ```text
//! 'L' length:u32                    so many bytes of the archive follow
//! 'F' path:u16 offset:u64 length:u64   a path follows; that part of the file there
//! 'E'                               the end
//! ```
//!
//! Numbers are little-endian.

/// Begins a run of bytes of the archive.
pub(super) const LITERAL: u8 = b'L';
/// Begins a part of a file.
pub(super) const FILE: u8 = b'F';
/// The end.
pub(super) const END: u8 = b'E';

/// Runs of literal bytes are gathered up to this size.
pub(super) const LITERAL_RUN: usize = 64 << 10;
