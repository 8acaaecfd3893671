//! The daemon's side of the server.

mod connection;
mod error;
mod events;
mod held;
mod server;

pub use error::{Error, Result};
pub use events::{Answers, Event, Events};
pub use held::Held;
pub use server::{Place, Server};
