//! `jsonschema` subcommand of `runp`, `create`, `run` and `pull`: JSON schemas of their configuration files, for
//! editors and validators.

use std::io::Write;

use orlop_cri_api::json;
use orlop_cri_api::v1::{ContainerConfig, PodSandboxConfig};

use crate::output::stdout;

/// `jsonschema` of commands that take a pod configuration.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum PodSchema {
    /// Print the JSON schema of the pod configuration
    #[command(visible_alias = "js")]
    Jsonschema,
}

/// `jsonschema` of commands that take the configurations of a pod and a container.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum AnySchema {
    /// Print the JSON schema of the pod or container configuration
    #[command(visible_alias = "js")]
    Jsonschema(Which),
}

/// Selects the configuration.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Which {
    /// Pod configuration
    #[arg(short, long)]
    pod: bool,

    /// Container configuration
    #[arg(short, long)]
    container: bool,
}

impl PodSchema {
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let Self::Jsonschema = self;
        print::<PodSandboxConfig>()
    }
}

impl AnySchema {
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let Self::Jsonschema(which) = self;
        if which.pod {
            print::<PodSandboxConfig>()?;
        }
        if which.container {
            print::<ContainerConfig>()?;
        }
        Ok(())
    }
}

fn print<T: prost::Name>() -> anyhow::Result<()> {
    let mut out = stdout();
    serde_json::to_writer_pretty(&mut out, &json::schema::<T>())?;
    writeln!(out)?;
    Ok(out.flush()?)
}
