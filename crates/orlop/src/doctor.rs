//! Checks of `orlop doctor` on this machine that need no daemon.

use std::path::PathBuf;

use orlop_cli::{Examined, Host};
use orlop_cri_api::inspection::Finding;
use orlop_engine::doctor::{examine_host, examine_host_below_docker};

use crate::backend::{engine_config, policies};
use crate::config::values::Backend;
use crate::config::{Config, Flags, Location, load};

/// This machine, for the client commands.
pub(crate) const HOST: Host = Host {
    examine: |config| Box::pin(examine(config)),
};

async fn examine(file: Option<PathBuf>) -> anyhow::Result<Examined> {
    let config = load(&Location::new(file), &Flags::default())?.config;
    let findings = host(&config).await;
    Ok(Examined {
        findings,
        socket: config.grpc.listen.first().map(ToString::to_string),
    })
}

async fn host(config: &Config) -> Vec<Finding> {
    if config.daemon.backend == Backend::Docker {
        return examine_host_below_docker(policies(config)).await;
    }
    match engine_config(config) {
        Ok(config) => examine_host(&config).await,
        Err(error) => vec![Finding::problem(
            "configuration",
            format!("{error:#}"),
            "fix the configuration and run `orlop config check`",
        )],
    }
}
