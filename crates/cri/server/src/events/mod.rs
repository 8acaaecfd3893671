//! What happened to pods and containers, for everybody who listens, for who comes back and has
//! missed something, and for who asks afterwards.

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
