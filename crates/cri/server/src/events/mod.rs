//! Pod and container events: for current subscribers, for subscribers that reconnect, and for later queries.

mod backlog;
mod history;
mod listener;
mod subscribers;
mod subscription;
mod taken;

pub use backlog::Ticket;
pub use listener::{Caller, Listener};
pub use subscribers::Events;
pub use subscription::Subscription;
