//! The state of the running service, and access to it.

pub mod cgroups;
pub mod commands;
mod held;
pub mod metrics;
pub mod paths;
pub mod rdt;
pub mod runtimes;
pub mod selinux_levels;
mod settings;
mod subscribers;

pub use held::{Node, Work};
pub use settings::Settings;
