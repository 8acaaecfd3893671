//! From a text to pods: read, checked, expanded, completed with defaults, and validated as an API
//! server does, each mistake with its line and the path of its field.

mod defaults;
mod expand;
#[cfg(test)]
mod fuzzed;
mod identity;
mod load;
mod names;
mod place;
mod remark;
mod validate;

pub(crate) use expand::MADE_FROM;
pub(crate) use identity::{Identity, SourceKind, identify};
pub(crate) use load::{Loaded, LoadedPod, Maker, load};
pub use remark::{Remark, Weight};
