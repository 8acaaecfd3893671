//! Reads untrusted layer archives, one entry at a time: ustar, pax, GNU long names and sparse files.

mod entry;
mod header;
mod pax;
mod reader;
mod sparse;

pub(crate) use entry::{Entry, EntryKind, Mtime, Segment};
pub(crate) use reader::{Bounds, Reader, Record};
