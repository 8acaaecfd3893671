//! The daemon's side of a pod's keeper.

mod client;
mod connection;
mod container;
mod events;
mod exec;
mod record;
mod spawn;
mod spec;

pub(crate) use client::millis;
pub use client::{AttachStreams, Keeper};
pub use container::{CreateContainer, Restore, StartBy, TerminalSize};
pub use events::{KeeperEvent, KeeperEvents};
pub use exec::{ExecCommand, ExecIo, StartedExec};
pub use record::recorded_exit;
pub use spec::{KeeperSpec, PodNamespaces};
