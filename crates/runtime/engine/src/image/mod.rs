//! Images as requests name them: resolving names, admission, and pulls in progress.

mod admit;
mod choose;
mod held;
mod here;
mod laziness;
mod listed;
pub mod pulls;

pub use admit::{admit, name_asked_for};
pub use choose::{asked_for, check_whole, chosen, find, stored};
pub use held::held_layers;
pub use here::{here, named};
pub use laziness::may_be_lazy;
pub use listed::{all_listed, listed};
