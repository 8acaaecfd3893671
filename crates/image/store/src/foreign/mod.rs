//! Policy checks of images that a Docker Engine stores.
//!
//! As in a normal pull, this resolves names, finds signatures and applies policies. The result is the digest to pull,
//! and the id that the image must have afterwards. The evidence is stored under that id, so that another policy can
//! check the image again without its registry.

mod examine;
mod examined;
mod images;
mod on_its_way;
mod records;

pub use examined::{Examined, ForeignIds, Leave, Target};
pub use images::{ForeignImage, ForeignImages};
pub use on_its_way::{OnItsWay, Sweep};
