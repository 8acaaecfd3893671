//! Streams of bytes towards a peer, over either protocol, and the copying between them and sockets
//! or file descriptors.

mod output;
mod pump;
mod readiness;
mod relay;

pub use output::Output;
pub(crate) use relay::relay;
