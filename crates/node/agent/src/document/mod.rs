//! Documents that people write, checked against what is known of each kind, so that a mistake is
//! reported with its line and the path of its field.

mod check;
mod kinds;
mod schema;

pub(crate) use check::check;
pub(crate) use kinds::KINDS;
pub(crate) use schema::{Schema, Type};
