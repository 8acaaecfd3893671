//! `checkpoint`: writes running containers to archives.

use anyhow::Context;

use super::output::write_all;
use super::select;
use super::session::Session;

/// Which containers, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The containers
    #[arg(value_name = "CONTAINER", required = true)]
    containers: Vec<String>,

    /// The archive to write
    #[arg(short, long, value_name = "FILE")]
    export: String,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let client = session.patient_runtime(None).await?;
    for id in select::containers(&client, &args.containers).await? {
        let written = client.checkpoint_container(&id, &args.export, None).await;
        written.with_context(|| format!("cannot checkpoint container {id}"))?;
        write_all(&format!("{id}\n"))?;
    }
    Ok(())
}
