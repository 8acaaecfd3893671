//! Container logs: reading across rotations, rotation, and links for log collectors.

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
