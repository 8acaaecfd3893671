//! The streaming server: one-time URLs, and what answers behind them.

mod config;
mod error;
mod http;
mod listener;
mod port_forward;
mod port_forward_ws;
mod remote_command;
mod streams;
mod tokens;

pub use config::Config;
pub use error::ServerError;
pub(crate) use http::{agree_websocket, listed};
pub use listener::{Change, Server};
pub use tokens::TooManyPending;
