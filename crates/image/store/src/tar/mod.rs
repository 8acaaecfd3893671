//! Reading layer archives: ustar, pax, GNU long names and sparse files, one entry at a time
//! and without trusting a byte of it.

mod entry;
mod header;
mod pax;
mod reader;
mod sparse;

pub(crate) use entry::{Entry, EntryKind, Mtime, Segment};
pub(crate) use reader::{Bounds, Reader, Record};
