//! `stats`: what containers use.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use orlop_cri::client::RuntimeClient;
use orlop_cri::v1::{
    ContainerStats, ContainerStatsFilter, CpuUsage, ListContainerStatsResponse, UInt64Value,
};

use super::flags::{Pair, map};
use super::output::{self, Format, FormatFlags, Table, bytes, short_id, stdout};
use super::select;
use super::session::{Dialect, Session};

/// Clears a terminal and goes to its beginning.
pub(super) const CLEAR: &str = "\x1b[2J\x1b[H";

/// The pause between two looks at what is watched.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Which containers, and how to show them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this container
    #[arg(value_name = "CONTAINER")]
    container: Option<String>,

    /// Only this container
    #[arg(long, conflicts_with = "container")]
    id: Option<String>,

    /// Only the containers of this pod
    #[arg(short, long)]
    pod: Option<String>,

    /// Only those with this label
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    label: Vec<Pair>,

    /// Those that don't run as well
    #[arg(short, long)]
    all: bool,

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
    let mut out = stdout();
    loop {
        let stats = read(&client, &filter).await?;
        if matches!(format, Format::Table) {
            let before: HashMap<_, _> = stats
                .into_iter()
                .map(|stats| (id(&stats).to_owned(), stats))
                .collect();
            tokio::time::sleep(Duration::from_secs(args.seconds.max(1))).await;
            let table = table(&before, &read(&client, &filter).await?, args.all);
            if session.dialect == Dialect::Crictl || args.watch && std::io::stdout().is_terminal() {
                out.write_all(CLEAR.as_bytes())?;
            }
            table.print(&mut out)?;
        } else {
            output::list(&mut out, &ListContainerStatsResponse { stats }, &format)?;
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
    filter: &ContainerStatsFilter,
) -> anyhow::Result<Vec<ContainerStats>> {
    let mut stats = client.list_container_stats(Some(filter.clone())).await?;
    stats.sort_by(|a, b| id(a).cmp(id(b)));
    Ok(stats)
}

fn table(before: &HashMap<String, ContainerStats>, after: &[ContainerStats], all: bool) -> Table {
    let mut table = Table::new([
        "CONTAINER",
        "NAME",
        "CPU %",
        "MEM",
        "DISK",
        "INODES",
        "SWAP",
    ]);
    for stats in after {
        let memory = number(
            stats
                .memory
                .as_ref()
                .and_then(|memory| memory.working_set_bytes),
        );
        let cpu = number(
            stats
                .cpu
                .as_ref()
                .and_then(|cpu| cpu.usage_core_nano_seconds),
        );
        // What doesn't run uses nothing; what is new has nothing to compare with.
        let Some(before) = before
            .get(id(stats))
            .filter(|_| all || cpu > 0 || memory > 0)
        else {
            continue;
        };
        let layer = stats.writable_layer.as_ref();
        let swap = stats.swap.as_ref().and_then(|swap| swap.swap_usage_bytes);
        let metadata = stats
            .attributes
            .as_ref()
            .and_then(|it| it.metadata.as_ref());
        table.row([
            short_id(id(stats)).to_owned(),
            metadata.map_or("", |metadata| &metadata.name).to_owned(),
            percent(before.cpu.as_ref(), stats.cpu.as_ref()),
            bytes(memory),
            bytes(number(layer.and_then(|layer| layer.used_bytes))),
            number(layer.and_then(|layer| layer.inodes_used)).to_string(),
            bytes(number(swap)),
        ]);
    }
    table
}

/// CPU use between two measurements, in per cent of one core. Runtimes measure at their own
/// pace: without a new measurement there is no use to tell.
pub(super) fn percent(before: Option<&CpuUsage>, after: Option<&CpuUsage>) -> String {
    let (Some(before), Some(after)) = (before, after) else {
        return "0.00".to_owned();
    };
    let passed = after.timestamp - before.timestamp;
    let used = number(after.usage_core_nano_seconds)
        .saturating_sub(number(before.usage_core_nano_seconds));
    if passed <= 0 {
        return "-".to_owned();
    }
    format!("{:.2}", used as f64 / passed as f64 * 100.0)
}

pub(super) fn number(value: Option<UInt64Value>) -> u64 {
    value.map_or(0, |value| value.value)
}

fn id(stats: &ContainerStats) -> &str {
    stats
        .attributes
        .as_ref()
        .map_or("", |attributes| &attributes.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(timestamp: i64, used: u64) -> CpuUsage {
        CpuUsage {
            timestamp,
            usage_core_nano_seconds: Some(UInt64Value { value: used }),
            ..Default::default()
        }
    }

    #[test]
    fn cpu_use_is_what_was_used_over_what_passed() {
        let cpu = |a: CpuUsage, b: CpuUsage| percent(Some(&a), Some(&b));
        assert_eq!(
            cpu(usage(0, 0), usage(1_000_000_000, 1_500_000_000)),
            "150.00"
        );
        assert_eq!(cpu(usage(5, 7), usage(5, 7)), "-", "not measured anew");
        assert_eq!(cpu(usage(0, 9), usage(10, 1)), "0.00", "started anew");
        assert_eq!(percent(None, None), "0.00");
    }
}
