//! `runp`: runs a pod.

use std::path::PathBuf;

use anyhow::Context;

use super::run;
use crate::connect::Session;
use crate::input::schema::PodSchema;
use crate::input::{Span, manifest};
use crate::output::write_all;
use crate::terminal::interrupt;

/// Arguments of `runp`.
#[derive(Debug, clap::Args)]
#[command(subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    schema: Option<PodSchema>,

    /// Pod configuration file, JSON or YAML; - for standard input
    #[arg(value_name = "POD-CONFIG", required = true)]
    config: Option<PathBuf>,

    /// Runtime handler of the pod
    #[arg(short, long, value_name = "HANDLER", default_value = "")]
    runtime: String,

    /// Maximum time to wait
    #[arg(short = 'T', long, value_name = "TIME")]
    cancel_timeout: Option<Span>,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    if let Some(schema) = args.schema {
        return schema.print();
    }
    let path = args.config.context("no configuration file given")?;
    let config = manifest::pod(&path)?;
    let client = session
        .patient_runtime(args.cancel_timeout.map(|span| span.0))
        .await?;
    let making = client.run_pod_sandbox(config, &args.runtime);
    let id = interrupt::or_undo(making, |id| {
        let client = client.clone();
        async move { run::undo(&client, &id).await }
    })
    .await?;
    Ok(write_all(&format!("{id}\n"))?)
}
