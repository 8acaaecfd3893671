//! Documents that people write. Each is checked against the schema of its kind, so that a mistake
//! is reported with its line and field path.

mod check;
mod kinds;
mod schema;

pub(crate) use check::check;
pub(crate) use kinds::KINDS;
pub(crate) use schema::{Schema, Type};
