//! Flags that select the running daemon.

use std::path::Path;

use clap::Args;

use crate::config::values::SocketPath;

/// Flag that selects the daemon.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// Socket of the daemon
    #[arg(
        long,
        value_name = "SOCKET",
        default_value = "unix:///run/orlop/orlop.sock"
    )]
    socket: SocketPath,
}

impl DaemonArgs {
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}
