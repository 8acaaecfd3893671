//! `statsp`: shows the resource usage of pods.

use orlop_cri_api::v1::{ListPodSandboxStatsResponse, PodSandboxStats, PodSandboxStatsFilter};

use crate::connect::Session;
use crate::families::usage::{self, Statistics, UsageFlags, number, percent};
use crate::input::{Pair, map, select};
use crate::output::{Table, bytes, short_id};

/// Arguments of `statsp`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only this pod
    #[arg(value_name = "POD")]
    pod: Option<String>,

    /// Show only this pod
    #[arg(long, conflicts_with = "pod")]
    id: Option<String>,

    /// Show only pods with this label
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    label: Vec<Pair>,

    #[command(flatten)]
    usage: UsageFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.usage.format()?;
    let client = session.runtime().await?;
    let mut filter = PodSandboxStatsFilter {
        label_selector: map(&args.label),
        ..Default::default()
    };
    if let Some(word) = args.pod.as_deref().or(args.id.as_deref()) {
        filter.id = select::pod(&client, word).await?;
    }
    let read = async || Ok(client.list_pod_sandbox_stats(Some(filter.clone())).await?);
    usage::show(&args.usage, &format, session, read).await
}

impl Statistics for PodSandboxStats {
    type List = ListPodSandboxStatsResponse;

    fn id(&self) -> &str {
        let attributes = self.attributes.as_ref();
        attributes.map_or("", |attributes| &attributes.id)
    }

    fn list(stats: Vec<Self>) -> ListPodSandboxStatsResponse {
        ListPodSandboxStatsResponse { stats }
    }

    fn heading() -> Table {
        Table::new(["POD", "POD ID", "CPU %", "MEM"])
    }

    fn row(&self, before: &Self) -> Option<Vec<String>> {
        let linux = self.linux.as_ref()?;
        let memory = linux.memory.as_ref();
        let memory = number(memory.and_then(|memory| memory.working_set_bytes));
        let cpu = linux.cpu.as_ref();
        if number(cpu.and_then(|cpu| cpu.usage_core_nano_seconds)) == 0 && memory == 0 {
            return None;
        }
        let earlier = before.linux.as_ref().and_then(|linux| linux.cpu.as_ref());
        let attributes = self.attributes.as_ref();
        let metadata = attributes.and_then(|attributes| attributes.metadata.as_ref());
        Some(vec![
            metadata.map_or("", |metadata| &metadata.name).to_owned(),
            short_id(self.id()).to_owned(),
            percent(earlier, cpu),
            bytes(memory),
        ])
    }
}
