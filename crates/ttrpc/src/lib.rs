//! ttrpc, the calls between containerd and its shims: frames over a unix socket, and the messages in
//! them as far as both need them.

mod client;
mod error;
mod frame;
mod proto;
mod server;

pub use client::{Client, parse_response};
pub use error::{Error, Result};
pub use frame::{LARGEST, REQUEST, RESPONSE, read_frame, write_frame};
pub use proto::{Any, Field, Value, Writer, any, field, fields, number, text};
pub use server::{Call, Status, answer_all, code, respond};
