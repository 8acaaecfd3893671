//! Conversion of entries, in any order, to the tree that they describe.

mod build;
mod entry;
mod links;
mod path;
mod texts;

pub(crate) use build::Tree;
pub(crate) use entry::{Entry, Is, mtime, owner, permissions};
pub(crate) use path::Path;
