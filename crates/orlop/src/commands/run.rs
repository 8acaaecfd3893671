//! `run`: runs a container in a pod of its own. If that fails or is interrupted, the pod is
//! removed again.

use std::path::PathBuf;

use anyhow::{Context, bail};
use orlop_cri::client::RuntimeClient;
use orlop_cri::v1::PodSandboxConfig;

use super::create::{PullFlags, create};
use super::output::write_all;
use super::session::Session;
use super::{interrupt, manifest};

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The container's configuration, JSON or YAML
    #[arg(value_name = "CONTAINER-CONFIG")]
    config: PathBuf,

    /// The pod's configuration, JSON or YAML
    #[arg(value_name = "POD-CONFIG")]
    pod_config: PathBuf,

    /// The handler that is to run the pod
    #[arg(short, long, value_name = "HANDLER", default_value = "")]
    runtime: String,

    #[command(flatten)]
    pull: PullFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let pod_config = manifest::pod(&args.pod_config)?;
    // Read early: a mistake in it shouldn't cost a pod.
    manifest::container(&args.config)?;
    let client = session.patient_runtime(args.pull.patience()).await?;
    let making = client.run_pod_sandbox(pod_config.clone(), &args.runtime);
    let pod = interrupt::or_undo(making, |pod| {
        let client = client.clone();
        async move { undo(&client, &pod).await }
    })
    .await?;
    let started = tokio::select! {
        result = start(&args, session, &client, &pod, pod_config) => result,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    match started {
        Ok(id) => Ok(write_all(&format!("{id}\n"))?),
        Err(error) => {
            if let Err(leftover) = undo(&client, &pod).await {
                bail!("{error:#}; and pod {pod} is left: {leftover:#}");
            }
            Err(error)
        }
    }
}

async fn start(
    args: &Args,
    session: &Session,
    client: &RuntimeClient,
    pod: &str,
    pod_config: PodSandboxConfig,
) -> anyhow::Result<String> {
    let wanted = args.pull.wanted(!session.no_pull_on_run);
    let id = create(
        session,
        client,
        pod,
        &args.config,
        pod_config,
        &args.pull,
        wanted,
    )
    .await?;
    let started = client.start_container(&id).await;
    started.with_context(|| format!("cannot start container {id}"))?;
    Ok(id)
}

/// Takes a pod back.
pub(super) async fn undo(client: &RuntimeClient, pod: &str) -> anyhow::Result<()> {
    client.stop_pod_sandbox(pod).await?;
    Ok(client.remove_pod_sandbox(pod).await?)
}
