//! The public interface of the image store.

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
