//! `restore`: restores a pod from a checkpoint.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use orlop_cri_api::v1::{RestorePodRequest, RestorePodResponse};

use super::checkpoint::{USUAL, key_value};
use super::run;
use crate::connect::Session;
use crate::input::{Span, manifest};
use crate::output::write_all;
use crate::terminal::interrupt;

/// Arguments of `restore`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory that `checkpoint --pod` wrote
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Configuration file of the new pod, JSON or YAML
    #[arg(value_name = "POD-CONFIG")]
    pod: PathBuf,

    /// Configuration file of each container of the checkpoint, matched by container name
    #[arg(value_name = "CONTAINER-CONFIG", required = true)]
    containers: Vec<PathBuf>,

    /// Create the containers, but do not start them
    #[arg(long)]
    no_start: bool,

    /// Runtime handler of the pod
    #[arg(short, long, value_name = "HANDLER", default_value = "")]
    runtime: String,

    /// Option to pass to the runtime
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = key_value)]
    options: Vec<(String, String)>,

    /// Maximum time to wait [default: 10m]
    #[arg(short = 'T', long, value_name = "TIME")]
    cancel_timeout: Option<Span>,
}

/// The restored pod and its containers.
struct Restored(RestorePodResponse);

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}", self.0.pod_sandbox_id)
    }
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let directory = std::fs::canonicalize(&args.directory)
        .with_context(|| format!("cannot find {}", args.directory.display()))?;
    let configs = args.containers.iter().map(|path| manifest::container(path));
    let message = RestorePodRequest {
        checkpoint_path: directory.to_string_lossy().into_owned(),
        config: Some(manifest::pod(&args.pod)?),
        runtime_handler: args.runtime,
        options: args.options.into_iter().collect(),
        container_configs: configs.collect::<anyhow::Result<_>>()?,
    };
    let limit: Duration = args.cancel_timeout.map_or(USUAL, |span| span.0);
    let client = session.patient_runtime(Some(limit)).await?;
    let making = async { client.restore_pod(message, limit).await.map(Restored) };
    let Restored(made) = interrupt::or_undo(making, |made| {
        let client = client.clone();
        async move { run::undo(&client, &made.0.pod_sandbox_id).await }
    })
    .await?;
    write_all(&format!("{}\n", made.pod_sandbox_id))?;
    for container in made.restored_containers {
        if !args.no_start {
            let started = client.start_container(&container.container_id).await;
            started.with_context(|| format!("cannot start container {}", container.name))?;
        }
        write_all(&format!("{}\n", container.container_id))?;
    }
    Ok(())
}
