//! Merges the changes of several plugins to one container.
//!
//! Each plugin sees the changes of the previous ones. Two plugins cannot set the same field, unless the later one
//! removes it first: [`owners`] records which plugin owns which field.

mod creation;
mod entries;
mod owners;
mod resources;
mod update;

pub use creation::Creation;
pub use owners::Owners;
pub use resources::overlay;
pub use update::{Update, Updates};
