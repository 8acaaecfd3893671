//! `orlop log-level`: what a running daemon logs.

use clap::Args;
use orlop_cli::reactor;

use crate::config::values::LevelFilter;
use crate::serve::{DaemonArgs, admin_client};

/// Shows the log level, or changes it until the daemon ends or its configuration
/// names another.
#[derive(Debug, Args)]
pub(crate) struct LogLevelArgs {
    #[command(flatten)]
    daemon: DaemonArgs,

    /// New log level, or one level per module as in info,orlop_image=debug
    level: Option<LevelFilter>,
}

impl LogLevelArgs {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let socket = self.daemon.socket();
        let call = match &self.level {
            None => admin_client::call(socket, "GetLogLevel", String::new()),
            Some(level) => admin_client::call(socket, "SetLogLevel", level.to_string()),
        };
        println!("{}", reactor::client()?.block_on(call)?);
        Ok(())
    }
}
