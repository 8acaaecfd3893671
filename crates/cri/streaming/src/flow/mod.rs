//! Byte flow below a connection: bounded receive queues, one shared writer.

mod activity;
mod inbox;
mod input;
mod outbox;
mod pulse;
mod read_buffer;
mod role;
mod transport;

pub(crate) use activity::Activity;
pub(crate) use inbox::{Budget, End, Inbox};
pub use input::Input;
pub(crate) use outbox::Outbox;
pub(crate) use pulse::Pulse;
pub(crate) use read_buffer::{LARGEST_BUFFER, ReadBuffer};
pub(crate) use role::{Limits, Role};
pub(crate) use transport::Transport;
