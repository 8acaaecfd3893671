//! SPDY/3.1 as Kubernetes' clients and servers use it.
//!
//! Those peers (all built on one Go library) multiplex streams but have no flow control: they never send
//! `WINDOW_UPDATE` and ignore it. Windows are therefore announced to every peer. They are refilled, and limit what is
//! *sent*, only after the peer has shown that it uses them.

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
