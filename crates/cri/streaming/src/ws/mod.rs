//! WebSocket (RFC 6455) with Kubernetes' channel protocols.
//!
//! The framing does not use a library: payloads go straight from their buffer to the socket and arrive piece by piece,
//! so that a message of any size needs no memory.

mod channels;
mod frame;
mod handshake;
mod message;
mod sink;

pub(crate) use channels::{Channels, Encoding};
pub use frame::WsError;
pub(crate) use handshake::{accept_key, fresh_key};
pub(crate) use sink::WsSink;
