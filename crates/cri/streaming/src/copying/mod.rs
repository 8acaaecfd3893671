//! Copying of bytes between sockets or file descriptors and the peer's streams, for both protocols.

mod output;
mod pump;
mod readiness;
mod relay;

pub use output::Output;
pub(crate) use relay::relay;
