//! Loads pods from a text: parses, checks, expands, sets defaults, and validates like an API
//! server. Each mistake is reported with its line and field path.

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
