//! `metricdescs`: lists the metrics that `metricsp` can report.

use std::io::Write;

use orlop_cri_api::v1::ListMetricDescriptorsResponse;

use crate::connect::Session;
use crate::output::{self, FormatFlags, Table, stdout};

/// Arguments of `metricdescs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: FormatFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_json()?;
    let descriptors = session.runtime().await?.list_metric_descriptors().await?;
    let answer = ListMetricDescriptorsResponse { descriptors };
    let mut out = stdout();
    if !output::list(&mut out, &answer, &format)? {
        let mut table = Table::new(["NAME", "LABELS", "HELP"]);
        for descriptor in &answer.descriptors {
            let labels = descriptor.label_keys.join(",");
            table.row([descriptor.name.clone(), labels, descriptor.help.clone()]);
        }
        table.print(&mut out)?;
    }
    Ok(out.flush()?)
}
