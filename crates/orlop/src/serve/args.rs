//! The flags of `orlop serve`. They override the configuration.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Flags, Location};

/// Flags of the daemon.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file; its drop-ins are FILE.d/*.toml [default: /etc/orlop/config.toml, if it
    /// exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    flags: Flags,
}

impl ServeArgs {
    /// Returns the location of the configuration and the flags that override it.
    pub(crate) fn split(self) -> (Location, Flags) {
        (Location::new(self.config), self.flags)
    }
}
