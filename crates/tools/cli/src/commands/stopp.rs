//! `stopp`: stops pods.

use anyhow::Context;

use crate::connect::Session;
use crate::input::select;
use crate::output::write_all;

/// Arguments of `stopp`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the pods
    #[arg(value_name = "POD", required = true)]
    pods: Vec<String>,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let client = session.patient_runtime(None).await?;
    for id in select::pods(&client, &args.pods).await? {
        let stopped = client.stop_pod_sandbox(&id).await;
        stopped.with_context(|| format!("cannot stop pod {id}"))?;
        write_all(&format!("Stopped sandbox {id}\n"))?;
    }
    Ok(())
}
