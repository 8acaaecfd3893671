//! Serving the interface: message limits, the old version's names, calls that aren't built.

mod alpha;
mod limits;
mod unbuilt;

pub use alpha::{V1Alpha2, V1Alpha2Layer};
pub use limits::MessageLimits;
pub use unbuilt::unimplemented;
