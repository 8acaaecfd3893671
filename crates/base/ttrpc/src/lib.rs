//! ttrpc, the protocol between containerd and its shims: frames over a unix socket.

mod client;
mod error;
mod frame;
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod messages;
mod server;
mod stream;

pub use client::{Client, parse_response};
pub use error::{Error, Result};
pub use frame::{
    CLOSED, DATA, Frame, LARGEST, NO_DATA, OPEN, REQUEST, RESPONSE, read_frame, read_whole_frame,
    write_frame,
};
pub use messages::{Request, Response, Status};
pub use server::{Call, answer_all, code, decode, respond};
pub use stream::Stream;
