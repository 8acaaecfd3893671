//! Container logs, which a CRI runtime writes and its clients read: one entry per line.

mod entry;
#[cfg(feature = "calls")]
mod line;

pub use entry::{Entry, EntryError, Stream};
#[cfg(feature = "calls")]
pub use line::Line;
