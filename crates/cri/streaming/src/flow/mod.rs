//! Byte flow between a connection and what it serves: bounded queues in, one shared writer out,
//! and the copying between both and file descriptors.

mod activity;
mod inbox;
mod input;
mod outbox;
mod output;
mod pulse;
mod pump;
mod read_buffer;
mod readiness;
mod relay;
mod role;
mod transport;

pub(crate) use activity::Activity;
pub(crate) use inbox::{Budget, End, Inbox};
pub use input::Input;
pub(crate) use outbox::Outbox;
pub use output::Output;
pub(crate) use output::Sink;
pub(crate) use pulse::Pulse;
pub(crate) use read_buffer::ReadBuffer;
pub(crate) use relay::relay;
pub(crate) use role::{Limits, Role};
pub(crate) use transport::Transport;
