//! `statsp`: what pods use.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use orlop_cri::client::RuntimeClient;
use orlop_cri::v1::{ListPodSandboxStatsResponse, PodSandboxStats, PodSandboxStatsFilter};

use super::flags::{Pair, map};
use super::output::{self, Format, FormatFlags, Table, bytes, short_id, stdout};
use super::select;
use super::session::{Dialect, Session};
use super::stats::{CLEAR, PAUSE, number, percent};

/// Which pods, and how to show them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this pod
    #[arg(value_name = "POD")]
    pod: Option<String>,

    /// Only this pod
    #[arg(long, conflicts_with = "pod")]
    id: Option<String>,

    /// Only those with this label
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    label: Vec<Pair>,

    #[command(flatten)]
    format: FormatFlags,

    /// Seconds over which CPU use is measured
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1)]
    seconds: u64,

    /// Again and again
    #[arg(short, long)]
    watch: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_table()?;
    let client = session.runtime().await?;
    let mut filter = PodSandboxStatsFilter {
        label_selector: map(&args.label),
        ..Default::default()
    };
    if let Some(word) = args.pod.as_deref().or(args.id.as_deref()) {
        filter.id = select::pod(&client, word).await?;
    }
    let mut out = stdout();
    loop {
        let stats = read(&client, &filter).await?;
        if matches!(format, Format::Table) {
            let before: HashMap<_, _> = stats
                .into_iter()
                .map(|stats| (id(&stats).to_owned(), stats))
                .collect();
            tokio::time::sleep(Duration::from_secs(args.seconds.max(1))).await;
            let table = table(&before, &read(&client, &filter).await?);
            if session.dialect == Dialect::Crictl || args.watch && std::io::stdout().is_terminal() {
                out.write_all(CLEAR.as_bytes())?;
            }
            table.print(&mut out)?;
        } else {
            output::list(&mut out, &ListPodSandboxStatsResponse { stats }, &format)?;
        }
        out.flush()?;
        if !args.watch {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn read(
    client: &RuntimeClient,
    filter: &PodSandboxStatsFilter,
) -> anyhow::Result<Vec<PodSandboxStats>> {
    let mut stats = client.list_pod_sandbox_stats(Some(filter.clone())).await?;
    stats.sort_by(|a, b| id(a).cmp(id(b)));
    Ok(stats)
}

fn table(before: &HashMap<String, PodSandboxStats>, after: &[PodSandboxStats]) -> Table {
    let mut table = Table::new(["POD", "POD ID", "CPU %", "MEM"]);
    for stats in after {
        let Some(before) = before.get(id(stats)) else {
            continue;
        };
        let Some(linux) = &stats.linux else { continue };
        let memory = number(
            linux
                .memory
                .as_ref()
                .and_then(|memory| memory.working_set_bytes),
        );
        let cpu = number(
            linux
                .cpu
                .as_ref()
                .and_then(|cpu| cpu.usage_core_nano_seconds),
        );
        if cpu == 0 && memory == 0 {
            continue;
        }
        let earlier = before.linux.as_ref().and_then(|linux| linux.cpu.as_ref());
        let metadata = stats
            .attributes
            .as_ref()
            .and_then(|it| it.metadata.as_ref());
        table.row([
            metadata.map_or("", |metadata| &metadata.name).to_owned(),
            short_id(id(stats)).to_owned(),
            percent(earlier, linux.cpu.as_ref()),
            bytes(memory),
        ]);
    }
    table
}

fn id(stats: &PodSandboxStats) -> &str {
    stats
        .attributes
        .as_ref()
        .map_or("", |attributes| &attributes.id)
}
