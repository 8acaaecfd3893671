//! The image store's front door, and what can be asked of it.

mod explain;
mod find;
mod forms;
mod front;
mod held;
mod image;
mod judge;
mod names;
mod transfer;

pub use forms::LayerForm;
pub use front::{FsUsage, Images};
pub use held::Lease;
pub use image::Image;
pub use transfer::ImportSource;
