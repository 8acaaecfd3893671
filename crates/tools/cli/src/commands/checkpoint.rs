//! `checkpoint`: writes running containers to archives, or those of a pod to a directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use orlop_cri_api::v1::{
    CheckpointPodRequest, ContainerFilter, ContainerState, ContainerStateValue,
};

use crate::connect::Session;
use crate::input::{Span, select};
use crate::output::write_all;

/// Default timeout for a pod, whose memory is written to disk.
pub(super) const USUAL: Duration = Duration::from_mins(10);

/// Arguments of `checkpoint`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the containers
    #[arg(value_name = "CONTAINER", required_unless_present = "pod")]
    containers: Vec<String>,

    /// Archive to write; with --pod, the directory to write
    #[arg(short, long, value_name = "FILE")]
    export: String,

    /// Checkpoint all running containers of this pod at the same moment
    #[arg(long, value_name = "POD", conflicts_with = "containers")]
    pod: Option<String>,

    /// Option to pass to the runtime, with --pod
    #[arg(long = "option", value_name = "KEY=VALUE", requires = "pod", value_parser = key_value)]
    options: Vec<(String, String)>,

    /// Maximum time to wait [default: the limit of the runtime; 10m with --pod]
    #[arg(short = 'T', long, value_name = "TIME")]
    cancel_timeout: Option<Span>,
}

pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').ok_or("is not in the form KEY=VALUE")?;
    Ok((parts.0.to_owned(), parts.1.to_owned()))
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let limit = args.cancel_timeout.map(|span| span.0);
    if let Some(pod) = &args.pod {
        return whole_pod(pod, &args, limit.unwrap_or(USUAL), session).await;
    }
    let client = session.patient_runtime(limit).await?;
    for id in select::containers(&client, &args.containers).await? {
        let written = client.checkpoint_container(&id, &args.export, limit).await;
        written.with_context(|| format!("cannot checkpoint container {id}"))?;
        write_all(&format!("{id}\n"))?;
    }
    Ok(())
}

async fn whole_pod(
    pod: &str,
    args: &Args,
    limit: Duration,
    session: &Session,
) -> anyhow::Result<()> {
    let client = session.patient_runtime(Some(limit)).await?;
    let id = select::pod(&client, pod).await?;
    let running = ContainerFilter {
        pod_sandbox_id: id.clone(),
        state: Some(ContainerStateValue {
            state: ContainerState::ContainerRunning.into(),
        }),
        ..Default::default()
    };
    let running = client.list_containers(Some(running)).await?;
    if running.is_empty() {
        bail!("pod {id} has no running containers");
    }
    let output = directory(Path::new(&args.export))?;
    let message = CheckpointPodRequest {
        pod_sandbox_id: id.clone(),
        output_path: output.to_string_lossy().into_owned(),
        container_ids: running.into_iter().map(|container| container.id).collect(),
        options: args.options.iter().cloned().collect(),
    };
    let written = client.checkpoint_pod(message, limit).await;
    written.with_context(|| format!("cannot checkpoint pod {id}"))?;
    Ok(write_all(&format!("{id}\n"))?)
}

/// Creates the directory, which the runtime requires. It is private, as it will contain the memory of processes.
fn directory(path: &Path) -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(path);
    made.and_then(|()| fs::canonicalize(path))
        .with_context(|| format!("cannot create the directory {}", path.display()))
}
