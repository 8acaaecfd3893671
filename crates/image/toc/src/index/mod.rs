//! Index of a layer's contents in one flat byte string.
//!
//! The index is created once from a verified table of contents, written to a file, and mapped from there. A lookup is
//! a binary search in the mapped bytes without an allocation; unused parts stay on disk. A file costs 20 bytes for
//! its node, 8 for its name's entry, and the name. Each distinct set of attributes (owner, time and so on) costs 32
//! bytes. Each chunk costs 60 bytes, which are read together with its content.
//!
//! All numbers are little endian. After a header of 128 bytes, these parts follow, each padded to 8 bytes with zeros.
//! The numbers in the header determine the offset of each part and the exact size of the file.
//!
//! | at | bytes | header |
//! |---|---|---|
//! | 0 | 8 | `orloptoc` |
//! | 8 | 4 | version: 1 |
//! | 12 | 1 | storage format: 1 gzip members, 2 zstd frames, 3 gzip spans, 4 plain spans |
//! | 16 | 8 | size of the layer |
//! | 24 | 8 | number of bytes at the layer's start that are needed soon |
//! | 32 | 8 × 4 | number of nodes, entries, attributes, chunks, spans, windows, bytes of names, bytes of texts |
//! | 64 | 32 | SHA-256 of all bytes after the header |
//! | 96 | 32 | SHA-256 of the header up to here |
//!
//! | part | bytes each | fields |
//! |---|---|---|
//! | nodes | 20 | attributes (4), first (4), count (4), size (8) |
//! | entries | 8 | offset of the name in the names (4), node (4) |
//! | attributes | 32 | mode with type (2), flags (2), links (4), uid (4), gid (4), seconds (8), nanoseconds (4), extended attributes (4) |
//! | chunks | 28 | offset in the file (8), offset in the layer (8), bytes there (4), decompressed bytes to skip (4), bytes of the file (4) |
//! | digests | 32 | SHA-256 of a chunk's content, one for each chunk |
//! | spans | 56 | offset in the layer (8), offset in the archive (8), bits (1, padded to 8), SHA-256 of the span (32) |
//! | names | 1 | names, in the order of the entries |
//! | texts | 1 | targets of links; extended attributes |
//! | windows | 32,768 | the archive's content before each gzip span |
//!
//! **Nodes** are numbered from 1, the root. Each has the number of its attributes, which many nodes share. For a
//! directory, `first` and `count` select its entries; for a link, its target in the texts; for a file, its chunks. In
//! a layer of spans a file has no chunks: `first` and `count` are one 64-bit number, the file's offset in the
//! archive. `size` is the size of a file or of a link's target, for a device its number (major in the upper half),
//! for a directory its parent.
//!
//! **Entries** of a directory are contiguous and sorted by name. A name ends where the next entry's begins, so there
//! is one more entry than counted, of node 0. Hard links are entries of the same node.
//!
//! **Chunks** of a file are contiguous, too, in the file's order and without gaps. A chunk with 0 bytes in the layer
//! is zeros and needs no fetch.
//!
//! **Spans** are in their order, with one more that marks the end of the last one. If `bits` is not 0, that many
//! upper bits of the previous byte belong to the span as well.
//!
//! **Extended attributes** are in the texts, at the offset in the attributes minus 1 (0: none). A record contains
//! their number (2), then for each the length of the name (2), of the value (4), and both.

mod attributes;
mod bytes;
mod content;
mod kind;
mod layout;
mod names;
mod read;
mod write;

pub use attributes::{Mtime, Node, Xattr};
pub use content::{Content, Extent};
pub use kind::Kind;
pub use names::Named;
pub use read::{Damaged, Index, ROOT};

pub(crate) use attributes::{FLAG_IMPLICIT, FLAG_OPAQUE};
pub(crate) use kind::PERMISSIONS;
pub(crate) use layout::Storage;
pub(crate) use write::{Draft, DraftChunk, DraftNode, DraftSpan, write};
