//! `rmp`: removes pods.

use anyhow::{Context, bail};
use orlop_cri::client::RuntimeClient;
use orlop_cri::v1::PodSandboxState;

use super::output::write_all;
use super::session::Session;
use super::{select, several};

/// Which pods.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pods
    #[arg(
        value_name = "POD",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pods: Vec<String>,

    /// Those that run as well
    #[arg(short, long)]
    force: bool,

    /// All pods
    #[arg(short, long)]
    all: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let client = session.patient_runtime(None).await?;
    let ids = if args.all {
        client
            .list_pod_sandbox(None)
            .await?
            .into_iter()
            .map(|pod| pod.id)
            .collect()
    } else {
        select::pods(&client, &args.pods).await?
    };
    if ids.is_empty() {
        eprintln!("there is no pod to remove");
    }
    several::each(ids, |id| remove(client.clone(), id, args.force)).await
}

async fn remove(client: RuntimeClient, id: String, force: bool) -> anyhow::Result<()> {
    let status = client.pod_sandbox_status(&id, false).await;
    let status = status.with_context(|| format!("cannot get the status of pod {id}"))?;
    let running = status
        .status
        .is_some_and(|status| status.state() == PodSandboxState::SandboxReady);
    if running && !force {
        bail!("pod {id} is running: stop it first, or use --force");
    }
    if running {
        let stopped = client.stop_pod_sandbox(&id).await;
        stopped.with_context(|| format!("cannot stop pod {id}"))?;
        write_all(&format!("Stopped sandbox {id}\n"))?;
    }
    let removed = client.remove_pod_sandbox(&id).await;
    removed.with_context(|| format!("cannot remove pod {id}"))?;
    Ok(write_all(&format!("Removed sandbox {id}\n"))?)
}
