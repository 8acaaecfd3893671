//! The flags of `orlop serve`. They beat the configuration.

use std::path::PathBuf;

use clap::Args;

use crate::config::values::{AbsolutePath, Backend, LevelFilter, MetricsEndpoint, SocketPath};
use crate::config::{Location, Overrides};
use crate::serve::DockerArgs;

/// Flags of the daemon.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// The configuration file; its drop-ins are FILE.d/*.toml
    /// [default: /etc/orlop/config.toml, where it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where images and the records of pods are kept [default: /var/lib/orlop]
    #[arg(long, value_name = "DIR")]
    root: Option<AbsolutePath>,

    /// Where sockets and whatever ends with a reboot are kept [default: /run/orlop]
    #[arg(long, value_name = "DIR")]
    state: Option<AbsolutePath>,

    /// The unix socket to serve the CRI on; may be given more than once
    /// [default: unix:///run/orlop/orlop.sock]
    #[arg(long, value_name = "SOCKET", alias = "container-runtime-endpoint")]
    listen: Vec<SocketPath>,

    /// Who runs the pods: native or docker [default: native]
    #[arg(long, value_name = "NAME")]
    backend: Option<Backend>,

    /// Where to serve metrics: a loopback address or unix:///path [default: nowhere]
    #[arg(long, value_name = "ENDPOINT")]
    metrics_listen: Option<MetricsEndpoint>,

    /// What to log: a level, or one per module as in info,orlop_image=debug
    /// [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LevelFilter>,

    #[command(flatten, next_help_heading = "With the docker backend")]
    docker: DockerArgs,
}

impl ServeArgs {
    /// Where the configuration is, and what the flags say over it.
    pub(crate) fn split(self) -> (Location, Overrides) {
        let location = Location::new(self.config);
        let overrides = Overrides {
            root: self.root,
            state: self.state,
            listen: self.listen,
            backend: self.backend,
            metrics_listen: self.metrics_listen,
            log_level: self.log_level,
            docker: self.docker,
        };
        (location, overrides)
    }
}
