//! `run`: runs a container in a new pod. The pod is removed again if that fails or is interrupted.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::v1::PodSandboxConfig;

use super::create::{PullFlags, create};
use crate::connect::Session;
use crate::input::manifest;
use crate::input::schema::AnySchema;
use crate::output::write_all;
use crate::terminal::interrupt;

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    schema: Option<AnySchema>,

    /// Container configuration file, JSON or YAML
    #[arg(value_name = "CONTAINER-CONFIG", required = true)]
    config: Option<PathBuf>,

    /// Pod configuration file, JSON or YAML
    #[arg(value_name = "POD-CONFIG", required = true)]
    pod_config: Option<PathBuf>,

    /// Runtime handler of the pod
    #[arg(short, long, value_name = "HANDLER", default_value = "")]
    runtime: String,

    #[command(flatten)]
    pull: PullFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    if let Some(schema) = args.schema {
        return schema.print();
    }
    let (Some(config), Some(pod_config)) = (&args.config, &args.pod_config) else {
        bail!("no configuration file given");
    };
    let pod_config = manifest::pod(pod_config)?;
    // Read before the pod is created, so that a mistake in the file does not leave a pod.
    manifest::container(config)?;
    let client = session.patient_runtime(args.pull.patience()).await?;
    let making = client.run_pod_sandbox(pod_config.clone(), &args.runtime);
    let pod = interrupt::or_undo(making, |pod| {
        let client = client.clone();
        async move { undo(&client, &pod).await }
    })
    .await?;
    let started = tokio::select! {
        result = start(&args.pull, config, session, &client, &pod, pod_config) => result,
        _ = interrupt::received() => Err(anyhow::anyhow!("interrupted")),
    };
    match started {
        Ok(id) => Ok(write_all(&format!("{id}\n"))?),
        Err(error) => {
            if let Err(leftover) = undo(&client, &pod).await {
                bail!("{error:#}; and the cleanup of pod {pod} failed: {leftover:#}");
            }
            Err(error)
        }
    }
}

async fn start(
    flags: &PullFlags,
    config: &Path,
    session: &Session,
    client: &RuntimeClient,
    pod: &str,
    pod_config: PodSandboxConfig,
) -> anyhow::Result<String> {
    let wanted = flags.wanted(!session.no_pull_on_run);
    let id = create(session, client, pod, config, pod_config, flags, wanted).await?;
    let started = client.start_container(&id).await;
    started.with_context(|| format!("cannot start container {id}"))?;
    Ok(id)
}

/// Stops and removes a pod.
pub(super) async fn undo(client: &RuntimeClient, pod: &str) -> anyhow::Result<()> {
    client.stop_pod_sandbox(pod).await?;
    Ok(client.remove_pod_sandbox(pod).await?)
}
