//! `orlop debug`: what a running daemon does at this moment, for support.

mod profile;

use clap::Subcommand;
use orlop_cli::reactor;
use serde_json::Value;

use super::config::print;
use crate::serve::{DaemonArgs, admin_client};
use profile::ProfileArgs;

/// What is looked at.
#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    /// Show what is in work and what it waits for: calls with their steps, pulls, plugins, threads; as JSON
    Tasks(DaemonArgs),
    /// Show who holds the daemon's memory: mappings, the allocator, and what is kept, as JSON
    Memory(DaemonArgs),
    /// Write down where the daemon's processor time goes, function by function
    Profile(ProfileArgs),
}

impl DebugCommand {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let found = match &self {
            Self::Tasks(daemon) => ask(daemon, "Tasks")?,
            Self::Memory(daemon) => ask(daemon, "Memory")?,
            Self::Profile(args) => return args.run(),
        };
        Ok(print(&format!("{found:#}\n"))?)
    }
}

fn ask(daemon: &DaemonArgs, method: &'static str) -> anyhow::Result<Value> {
    let call = admin_client::call(daemon.socket(), method, String::new());
    let found = reactor::client()?.block_on(call)?;
    Ok(serde_json::from_slice(found.as_bytes())?)
}
