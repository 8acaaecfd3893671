//! Parsers of command line arguments: values of flags, points in time, names of pods and containers, configuration
//! files.

pub(crate) mod manifest;
mod moment;
pub(crate) mod schema;
pub(crate) mod select;
mod values;

pub(crate) use moment::moment;
pub use values::Span;
pub(crate) use values::{Pair, map};
