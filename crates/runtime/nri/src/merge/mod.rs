//! What several plugins want of one container becomes one wish.
//!
//! Each plugin is asked with what those before it have changed. Nothing may be set by two of them,
//! unless the later one removes it first: [`owners`] knows whose is what.

mod creation;
mod entries;
mod owners;
mod resources;
mod update;

pub use creation::Creation;
pub use owners::Owners;
pub use resources::overlay;
pub use update::{Update, Updates};
