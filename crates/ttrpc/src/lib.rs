//! ttrpc, the calls between containerd and its shims: frames over a unix socket, and the messages in
//! them as far as both need them.

mod client;
mod error;
mod frame;
mod proto;
mod server;
mod stream;

pub use client::{Client, parse_response};
pub use error::{Error, Result};
pub use frame::{
    CLOSED, DATA, Frame, LARGEST, NO_DATA, OPEN, REQUEST, RESPONSE, read_frame, read_whole_frame,
    write_frame,
};
pub use proto::{
    Any, Field, Value, Writer, all, any, bytes, field, fields, number, text, whole_fields,
};
pub use server::{Call, Status, answer_all, code, respond};
pub use stream::Stream;
