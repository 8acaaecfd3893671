//! What happened to pods and containers, for everybody who listens, and for who comes back and has
//! missed something.

mod backlog;
mod listener;
mod subscribers;
mod subscription;
mod taken;

pub use backlog::Ticket;
pub use listener::{Caller, Listener};
pub use subscribers::Events;
pub use subscription::Subscription;
