//! Images that are kept elsewhere, by a Docker Engine: which of them may be used.
//!
//! Names are resolved, signatures found and policies asked as for a pull of ours; what comes of it is which digest to
//! pull, and which id the image must have then. Evidence is kept here by that id, so that the image can be judged anew
//! by another policy, without its registry.

mod examine;
mod examined;
mod images;
mod on_its_way;
mod records;

pub use examined::{Examined, ForeignIds, Leave, Target};
pub use images::{ForeignImage, ForeignImages};
pub use on_its_way::{OnItsWay, Sweep};
