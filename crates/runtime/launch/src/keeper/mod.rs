//! The daemon's side of a pod's keeper.

mod client;
mod connection;
mod container;
mod end;
mod events;
mod exec;
mod find;
mod fork;
mod held;
mod record;
mod spawn;
mod spec;

pub use client::{AttachStreams, Keeper};
pub use container::StartBy;
pub use end::{end_keeper, remove_pod_dir};
pub use events::{KeeperEvent, KeeperEvents};
pub use exec::{ExecCommand, ExecIo, StartedExec};
pub use find::FoundKeeper;
pub use held::Held;
pub use record::recorded_exit;
pub use spec::{KeeperSpec, PodNamespaces};
