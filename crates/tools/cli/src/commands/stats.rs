//! `stats`: shows the resource usage of containers.

use orlop_cri_api::v1::{ContainerStats, ContainerStatsFilter, ListContainerStatsResponse};

use crate::connect::Session;
use crate::families::usage::{self, Statistics, UsageFlags, number, percent};
use crate::input::{Pair, map, select};
use crate::output::{Table, bytes, short_id};

/// Arguments of `stats`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only this container
    #[arg(value_name = "CONTAINER")]
    container: Option<String>,

    /// Show only this container
    #[arg(long, conflicts_with = "container")]
    id: Option<String>,

    /// Show only the containers of this pod
    #[arg(short, long)]
    pod: Option<String>,

    /// Show only containers with this label
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    label: Vec<Pair>,

    /// Include containers that are not running
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    usage: UsageFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.usage.format()?;
    let client = session.runtime().await?;
    let mut filter = ContainerStatsFilter {
        label_selector: map(&args.label),
        ..Default::default()
    };
    if let Some(word) = args.container.as_deref().or(args.id.as_deref()) {
        filter.id = select::container(&client, word).await?;
    }
    if let Some(word) = &args.pod {
        filter.pod_sandbox_id = select::pod(&client, word).await?;
    }
    let read = async || {
        let all = client.list_container_stats(Some(filter.clone())).await?;
        Ok(all
            .into_iter()
            .map(|stats| Shown {
                stats,
                idle_too: args.all,
            })
            .collect())
    };
    usage::show(&args.usage, &format, session, read).await
}

/// Statistics of a container, and whether to list it if it uses nothing.
struct Shown {
    stats: ContainerStats,
    idle_too: bool,
}

impl Statistics for Shown {
    type List = ListContainerStatsResponse;

    fn id(&self) -> &str {
        let attributes = self.stats.attributes.as_ref();
        attributes.map_or("", |attributes| &attributes.id)
    }

    fn list(all: Vec<Self>) -> ListContainerStatsResponse {
        ListContainerStatsResponse {
            stats: all.into_iter().map(|shown| shown.stats).collect(),
        }
    }

    fn heading() -> Table {
        Table::new([
            "CONTAINER",
            "NAME",
            "CPU %",
            "MEM",
            "DISK",
            "INODES",
            "SWAP",
        ])
    }

    fn row(&self, before: &Self) -> Option<Vec<String>> {
        let stats = &self.stats;
        let memory = stats.memory.as_ref();
        let memory = number(memory.and_then(|memory| memory.working_set_bytes));
        let cpu = stats.cpu.as_ref();
        // A container that does not run uses nothing.
        let used = number(cpu.and_then(|cpu| cpu.usage_core_nano_seconds)) > 0 || memory > 0;
        if !used && !self.idle_too {
            return None;
        }
        let layer = stats.writable_layer.as_ref();
        let swap = stats.swap.as_ref().and_then(|swap| swap.swap_usage_bytes);
        let attributes = stats.attributes.as_ref();
        let metadata = attributes.and_then(|attributes| attributes.metadata.as_ref());
        Some(vec![
            short_id(self.id()).to_owned(),
            metadata.map_or("", |metadata| &metadata.name).to_owned(),
            percent(before.stats.cpu.as_ref(), cpu),
            bytes(memory),
            bytes(number(layer.and_then(|layer| layer.used_bytes))),
            number(layer.and_then(|layer| layer.inodes_used)).to_string(),
            bytes(number(swap)),
        ])
    }
}
