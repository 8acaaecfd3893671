//! Copies bytes between sockets or file descriptors and the streams of a peer, for both protocols.

mod output;
mod pump;
mod readiness;
mod relay;

pub use output::Output;
pub(crate) use relay::relay;
