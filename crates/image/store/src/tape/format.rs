//! The file format of a tape.
//!
//! A tape is a zstd stream of runs. The first byte of each run is its type:
//!
//! ```text
//! 'L' length:u32                       followed by so many bytes of the archive
//! 'F' path:u16 offset:u64 length:u64   followed by the path; stands for that part of the file
//! 'E'                                  the end
//! ```
//!
//! Numbers are little-endian.

/// Type of a run of archive bytes.
pub(super) const LITERAL: u8 = b'L';
/// Type of a run of file content.
pub(super) const FILE: u8 = b'F';
/// Type of the end marker.
pub(super) const END: u8 = b'E';

/// Maximum size of a run of archive bytes.
pub(super) const LITERAL_RUN: usize = 64 << 10;
