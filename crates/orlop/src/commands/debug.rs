//! `orlop debug`: what a running daemon does at this moment, for support.

use clap::Subcommand;
use orlop_cli::reactor;
use serde_json::Value;

use super::config::print;
use crate::serve::{DaemonArgs, admin_client};

/// What is looked at.
#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    /// Show what is in work and what it waits for: calls with their steps, pulls, plugins, threads; as JSON
    Tasks(DaemonArgs),
    /// Show who holds the daemon's memory: mappings, the allocator, and what is kept, as JSON
    Memory(DaemonArgs),
}

impl DebugCommand {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (daemon, method) = match &self {
            Self::Tasks(daemon) => (daemon, "Tasks"),
            Self::Memory(daemon) => (daemon, "Memory"),
        };
        let call = admin_client::call(daemon.socket(), method, String::new());
        let found: Value = serde_json::from_str(&reactor::client()?.block_on(call)?)?;
        Ok(print(&format!("{found:#}\n"))?)
    }
}
