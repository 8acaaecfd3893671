//! Serving the interface: message limits, the `v1alpha2` names, unimplemented calls.

mod alpha;
mod limits;
mod unbuilt;

pub use alpha::{V1Alpha2, V1Alpha2Layer};
pub use limits::MessageLimits;
pub use unbuilt::unimplemented;
