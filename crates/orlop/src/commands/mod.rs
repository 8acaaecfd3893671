//! The commands of the daemon, one file or directory each. Client commands for a CRI endpoint are in the crate `cli`.

#[cfg(feature = "node")]
mod apply;
mod config;
mod debug;
#[cfg(feature = "node")]
mod delete;
#[cfg(not(all(feature = "node", feature = "migrate")))]
mod left_out;
mod log_level;
#[cfg(feature = "migrate")]
mod migrate;
#[cfg(feature = "node")]
mod node;
#[cfg(feature = "node")]
mod page;
#[cfg(feature = "node")]
mod up;

pub(crate) use config::ConfigCommand;
pub(crate) use debug::DebugCommand;
#[cfg(not(feature = "migrate"))]
pub(crate) use left_out::MigrateArgs;
#[cfg(not(feature = "node"))]
pub(crate) use left_out::{ApplyArgs, DeleteArgs, NodeArgs, UpArgs};
pub(crate) use log_level::LogLevelArgs;
#[cfg(feature = "migrate")]
pub(crate) use migrate::MigrateArgs;
#[cfg(feature = "node")]
pub(crate) use {apply::ApplyArgs, delete::DeleteArgs, node::NodeArgs, up::UpArgs};
