//! Common parts of `stats` and `statsp`: two samples or repeated ones, and the difference.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use orlop_cri_api::v1::{CpuUsage, UInt64Value};

use crate::connect::{Dialect, Session};
use crate::output::{self, Format, FormatFlags, Table, stdout};

/// Escape sequences that clear a terminal and move to its start.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Pause between two samples of `--watch`.
const PAUSE: Duration = Duration::from_millis(500);

/// Flags of `stats` and `statsp`.
#[derive(Debug, clap::Args)]
pub(crate) struct UsageFlags {
    #[command(flatten)]
    format: FormatFlags,

    /// Number of seconds to measure the CPU usage
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1)]
    seconds: u64,

    /// Repeat until interrupted
    #[arg(short, long)]
    watch: bool,
}

impl UsageFlags {
    /// Returns the requested format. A mistake in it is reported before any call.
    pub(crate) fn format(&self) -> anyhow::Result<Format> {
        self.format.or_table()
    }
}

/// Statistics of one object, as the runtime reports them.
pub(crate) trait Statistics: Sized {
    /// Response that lists them.
    type List: prost::Name;

    fn id(&self) -> &str;
    fn list(all: Vec<Self>) -> Self::List;
    fn heading() -> Table;
    /// Formats a row, given the earlier statistics; `None` to leave the object out.
    fn row(&self, before: &Self) -> Option<Vec<String>>;
}

/// Shows the statistics that `read` returns, once or repeatedly.
pub(crate) async fn show<S: Statistics>(
    flags: &UsageFlags,
    format: &Format,
    session: &Session,
    read: impl AsyncFn() -> anyhow::Result<Vec<S>>,
) -> anyhow::Result<()> {
    let sorted = async || -> anyhow::Result<Vec<S>> {
        let mut all = read().await?;
        all.sort_by(|a, b| a.id().cmp(b.id()));
        Ok(all)
    };
    let mut out = stdout();
    loop {
        let stats = sorted().await?;
        if matches!(format, Format::Table) {
            tokio::time::sleep(Duration::from_secs(flags.seconds.max(1))).await;
            let table = table(&stats, &sorted().await?);
            let on_screen = flags.watch && std::io::stdout().is_terminal();
            if session.dialect == Dialect::Crictl || on_screen {
                out.write_all(CLEAR.as_bytes())?;
            }
            table.print(&mut out)?;
        } else {
            output::list(&mut out, &S::list(stats), format)?;
        }
        out.flush()?;
        if !flags.watch {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A new object has nothing to compare with, and is shown from the next sample.
fn table<S: Statistics>(before: &[S], after: &[S]) -> Table {
    let before: HashMap<&str, &S> = before.iter().map(|stats| (stats.id(), stats)).collect();
    let mut table = S::heading();
    for stats in after {
        let row = before.get(stats.id()).and_then(|before| stats.row(before));
        if let Some(row) = row {
            table.row(row);
        }
    }
    table
}

/// Returns the CPU usage between two measurements in per cent of one core. Runtimes measure at their own interval:
/// without a new measurement it is unknown.
pub(crate) fn percent(before: Option<&CpuUsage>, after: Option<&CpuUsage>) -> String {
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

/// Returns the number, or zero if it was not measured.
pub(crate) fn number(value: Option<UInt64Value>) -> u64 {
    value.map_or(0, |value| value.value)
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
