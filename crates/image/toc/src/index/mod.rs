//! What a layer holds, as one flat run of bytes.
//!
//! It is made once, when a table of contents was verified, written to a file, and mapped from there: a lookup is a
//! binary search in the mapped bytes and allocates nothing; what nobody looks at stays on disk. A file costs 20
//! bytes for its node, 8 for its name's entry, the name, and as often as its owner, time and so on differ from
//! others' 32 for these; 60 for each chunk, which are read when its content is.
//!
//! All numbers are little endian. Behind a header of 128 bytes stand these parts, each padded to 8 bytes with
//! zeros; where each begins follows from the numbers in the header. The whole file is not longer or shorter.
//!
//! | at | bytes | header |
//! |---|---|---|
//! | 0 | 8 | `orloptoc` |
//! | 8 | 4 | version: 1 |
//! | 12 | 1 | how content is stored: 1 gzip members, 2 zstd frames, 3 gzip spans, 4 plain spans |
//! | 16 | 8 | bytes of the layer |
//! | 24 | 8 | so many of its first bytes are wanted soon |
//! | 32 | 8 × 4 | how many nodes, entries, attributes, chunks, spans, windows, bytes of names, bytes of texts |
//! | 64 | 32 | SHA-256 of all behind the header |
//! | 96 | 32 | SHA-256 of the header until here |
//!
//! | part | bytes each | fields |
//! |---|---|---|
//! | nodes | 20 | attributes (4), first (4), count (4), size (8) |
//! | entries | 8 | where the name begins in the names (4), node (4) |
//! | attributes | 32 | mode with type (2), flags (2), links (4), uid (4), gid (4), seconds (8), nanoseconds (4), extended attributes (4) |
//! | chunks | 28 | offset in the file (8), offset in the layer (8), bytes there (4), decompressed bytes to skip (4), bytes of the file (4) |
//! | digests | 32 | SHA-256 of a chunk's content, one for each chunk |
//! | spans | 56 | offset in the layer (8), offset in the archive (8), bits (1, padded to 8), SHA-256 of the span (32) |
//! | names | 1 | names, in the order of the entries |
//! | texts | 1 | targets of links; extended attributes |
//! | windows | 32,768 | what comes before each gzip span in the archive |
//!
//! **Nodes** are numbered from 1, the root. Each has the number of its attributes, which many share. `first` and
//! `count` say for a directory which entries are its, for a link where its target is in the texts, for a file which
//! chunks are its. In a layer of spans a file has no chunks: `first` and `count` are, as one number of 64 bits,
//! where in the archive it begins. `size` is a file's or of a link's
//! target, for a device its number (major in the upper half), for a
//! directory the node that it is in.
//!
//! **Entries** of a directory stand side by side, sorted by name. A name ends where the next entry's begins; so there
//! is one entry more than is counted, of node 0. Hard links are entries of one node.
//!
//! **Chunks** of a file stand side by side, too, in the file's order and without gaps. One of no bytes in the layer is
//! zeros, and the layer is not asked for it.
//!
//! **Spans** are in their order, and one more that says where the last one ends. If `bits` is not 0, the byte before
//! belongs to the span as well, for that many of its upper bits.
//!
//! **Extended attributes** stand in the texts, behind where the attributes say minus 1 (0: none): their number (2),
//! then for each the length of the name (2), of the value (4), and both.

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
