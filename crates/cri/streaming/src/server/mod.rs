//! The streaming server: single-use URLs and the sessions behind them.

mod config;
mod context;
mod error;
mod http;
mod listener;
mod port_forward;
mod port_forward_ws;
mod remote_command;
mod streams;
mod tokens;
mod upgrade;

pub use config::Config;
pub use error::ServerError;
pub use listener::{Change, Server};
pub use tokens::TooManyPending;
pub(crate) use upgrade::{agree_websocket, listed};
