//! `start`: starts created containers.

use anyhow::Context;

use crate::connect::Session;
use crate::input::select;
use crate::output::write_all;

/// Arguments of `start`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the containers
    #[arg(value_name = "CONTAINER", required = true)]
    containers: Vec<String>,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let client = session.patient_runtime(None).await?;
    for id in select::containers(&client, &args.containers).await? {
        let started = client.start_container(&id).await;
        started.with_context(|| format!("cannot start container {id}"))?;
        write_all(&format!("{id}\n"))?;
    }
    Ok(())
}
