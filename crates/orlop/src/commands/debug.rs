//! `orlop debug`: diagnostics of a running daemon for support.

mod profile;

use std::time::Duration;

use clap::Subcommand;
use orlop_cli::reactor;
use serde_json::Value;

use super::config::print;
use crate::serve::{DaemonArgs, admin_client};
use profile::ProfileArgs;

/// Subcommands of `debug`.
#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    /// Print the work in progress of the daemon and what it waits for: calls, pulls, plugins,
    /// threads; as JSON
    Tasks(DaemonArgs),
    /// Print the memory usage of the daemon: mappings, allocator and data structures; as JSON
    Memory(DaemonArgs),
    /// Record a CPU profile of the daemon
    Profile(ProfileArgs),
}

impl DebugCommand {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let found = match &self {
            Self::Tasks(daemon) => ask(daemon, "Tasks", String::new(), admin_client::LIMIT)?,
            Self::Memory(daemon) => ask(daemon, "Memory", String::new(), admin_client::LIMIT)?,
            Self::Profile(args) => return args.run(),
        };
        Ok(print(&format!("{found:#}\n"))?)
    }
}

fn ask(
    daemon: &DaemonArgs,
    method: &'static str,
    text: String,
    limit: Duration,
) -> anyhow::Result<Value> {
    let call = admin_client::call_within(daemon.socket(), method, text, limit);
    let found = reactor::client()?.block_on(call)?;
    Ok(serde_json::from_slice(found.as_bytes())?)
}
