//! YAML as Kubernetes reads it, with the place of every value, so that a mistake is reported with
//! its line: version 1.2's grammar with 1.1's plain scalars, merge keys, and JSON as a subset.

mod node;
mod read;
mod typed;

pub use node::{Content, Entry, Node, Position};
pub use read::{Document, documents};
pub use typed::{Error, from_str};
