//! `orlop log-level`: shows or sets the log level of a running daemon.

use clap::Args;
use orlop_cli::reactor;

use crate::config::values::LevelFilter;
use crate::serve::{DaemonArgs, admin_client};

/// Arguments of `log-level`. A new level is kept until the daemon ends or its configuration sets another one.
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
