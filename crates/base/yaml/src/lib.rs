//! YAML as Kubernetes reads it, with the position of every value for error messages: the grammar of version 1.2 with
//! plain scalars of 1.1, merge keys, and JSON as a subset.

mod node;
mod read;
mod typed;

pub use node::{Content, Entry, Node, Position};
pub use read::{Document, documents};
pub use typed::{Error, from_str};
