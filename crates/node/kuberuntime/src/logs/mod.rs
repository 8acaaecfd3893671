//! Containers' logs: reading them over rotations, rotating them, and the names that log
//! collectors know them by.

mod lines;
mod links;
mod parts;
mod query;
mod read;
mod remove;
mod rotate;

pub(crate) use links::LogLinks;
pub use query::LogQuery;
pub(crate) use read::{Source, read};
pub(crate) use remove::remove;
pub(crate) use rotate::{RotateTarget, rotate};
