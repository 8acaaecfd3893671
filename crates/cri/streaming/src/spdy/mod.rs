//! SPDY/3.1 as Kubernetes' clients and servers speak it.
//!
//! Those peers (all built on one Go library) multiplex streams but do no flow control: they never
//! send a `WINDOW_UPDATE` and ignore those they get. So windows are announced to everybody, but
//! they are refilled, and limit what is *sent*, only once the peer has shown that it keeps them.

mod connection;
mod control;
mod dictionary;
mod frame;
mod headers;
mod stream;
mod window;

pub(crate) use connection::{Connection, OpenError, Opener};
pub use frame::FrameError;
pub(crate) use headers::Headers;
pub(crate) use stream::{SpdySink, SpdyStream};
