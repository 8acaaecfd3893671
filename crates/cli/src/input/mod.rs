//! What the words of a command line mean: values of flags, names of pods and containers, files with
//! configurations.

pub(crate) mod manifest;
pub(crate) mod schema;
pub(crate) mod select;
mod values;

pub use values::Span;
pub(crate) use values::{Pair, map};
