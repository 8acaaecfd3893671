//! The sockets that clients come to.

mod accept;
mod listener;

pub(crate) use accept::incoming;
pub(crate) use listener::{Connection, Listener};
