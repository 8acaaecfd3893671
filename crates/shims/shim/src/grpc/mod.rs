//! gRPC over a socket.

mod client;
mod stream;

pub(crate) use client::Client;
pub(crate) use stream::Stream;
