//! `metricsp`: shows the metrics of pods.

use std::io::Write;
use std::time::Duration;

use anyhow::bail;
use orlop_cri_api::v1::ListPodSandboxMetricsResponse;

use crate::connect::Session;
use crate::output::{self, FormatFlags, stdout};

const PAUSE: Duration = Duration::from_millis(500);

/// Arguments of `metricsp`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: FormatFlags,

    /// Repeat until interrupted
    #[arg(short, long)]
    watch: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_json()?;
    let client = session.runtime().await?;
    let mut out = stdout();
    loop {
        let pod_metrics = client.list_pod_sandbox_metrics().await?;
        let answer = ListPodSandboxMetricsResponse { pod_metrics };
        if !output::list(&mut out, &answer, &format)? {
            bail!("the output format of metrics must be json, yaml or go-template");
        }
        out.flush()?;
        if !args.watch {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
