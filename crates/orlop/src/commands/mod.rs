//! The commands of the daemon, one file or directory each. Client commands for a CRI endpoint are in the crate `cli`.

mod apply;
mod config;
mod debug;
mod delete;
mod log_level;
mod migrate;
mod node;
mod page;
mod up;

pub(crate) use apply::ApplyArgs;
pub(crate) use config::ConfigCommand;
pub(crate) use debug::DebugCommand;
pub(crate) use delete::DeleteArgs;
pub(crate) use log_level::LogLevelArgs;
pub(crate) use migrate::MigrateArgs;
pub(crate) use node::NodeArgs;
pub(crate) use up::UpArgs;
