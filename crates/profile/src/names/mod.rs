//! From places to the names of functions.

mod files;
mod kernel;
mod symbols;

pub use symbols::{Named, Names};
