//! `stop`: stops containers.

use std::time::Duration;

use anyhow::Context;
use orlop_cri_api::v1::{ContainerFilter, ContainerState, ContainerStateValue};

use crate::connect::Session;
use crate::input::select;
use crate::output::write_all;

/// Arguments of `stop`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the containers
    #[arg(
        value_name = "CONTAINER",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    containers: Vec<String>,

    /// Seconds to wait before the containers are killed
    #[arg(short, long, value_name = "SECONDS", default_value_t = 0)]
    timeout: u64,

    /// Stop all running containers
    #[arg(short, long)]
    all: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let client = session.patient_runtime(None).await?;
    let ids = if args.all {
        let running = ContainerStateValue {
            state: ContainerState::ContainerRunning.into(),
        };
        let filter = ContainerFilter {
            state: Some(running),
            ..Default::default()
        };
        let found = client.list_containers(Some(filter)).await?;
        if found.is_empty() {
            write_all("No running containers found.\n")?;
        }
        found.into_iter().map(|container| container.id).collect()
    } else {
        select::containers(&client, &args.containers).await?
    };
    for id in ids {
        let stopped = client
            .stop_container(&id, Duration::from_secs(args.timeout))
            .await;
        stopped.with_context(|| format!("cannot stop container {id}"))?;
        write_all(&format!("{id}\n"))?;
    }
    Ok(())
}
