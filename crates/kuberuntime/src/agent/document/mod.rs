//! Documents that people write: YAML with positions, checked against what is known of each kind,
//! so that a mistake is reported with its line and the path of its field.

mod check;
mod kinds;
mod node;
mod schema;
mod yaml;

pub(crate) use check::check;
pub(crate) use kinds::KINDS;
pub use node::Position;
pub(crate) use node::{Content, Node};
pub(crate) use schema::Schema;
pub(crate) use yaml::{Document, documents};
