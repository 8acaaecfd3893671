//! What `inspect`, `inspectp` and `inspecti` have in common: asking for one thing after the other
//! and showing what the runtime tells and adds.

use std::collections::HashMap;
use std::io::{self, Write};

use anyhow::bail;
use serde_json::{Map, Value};

use crate::output::{Format, FormatFlags, StatusReport, labels, print_reports, stdout};

/// How to show it.
#[derive(Debug, clap::Args)]
pub(crate) struct InspectionFlags {
    #[command(flatten)]
    format: FormatFlags,

    /// Hide the additional information of the runtime
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl InspectionFlags {
    /// The format asked for; a mistake in it is told before anybody is asked.
    pub(crate) fn format(&self) -> anyhow::Result<Format> {
        self.format.or_json()
    }
}

/// The status of a thing, as the runtime tells it.
pub(crate) trait Inspected {
    /// What one of them is called.
    const NAME: &'static str;

    /// For programs.
    fn value(&self) -> Value;
    /// For people.
    fn table(&self, out: &mut impl Write) -> io::Result<()>;
}

/// Shows each of `names` as `ask` tells of it.
pub(crate) async fn show<S: Inspected>(
    names: Vec<String>,
    flags: &InspectionFlags,
    format: &Format,
    ask: impl AsyncFn(&str) -> anyhow::Result<(S, HashMap<String, String>)>,
) -> anyhow::Result<()> {
    if names.is_empty() {
        bail!("no such {}", S::NAME);
    }
    let mut out = stdout();
    let mut reports = Vec::new();
    for name in names {
        let (status, info) = ask(&name).await?;
        if matches!(format, Format::Table) {
            status.table(&mut out)?;
            if !flags.quiet {
                labels(&mut out, "Info", &info)?;
            }
        } else {
            reports.push(StatusReport::new(status.value(), info));
        }
    }
    print_reports(&mut out, reports, format)?;
    Ok(out.flush()?)
}

/// Parts that are printed even where they are empty: scripts count on them.
pub(crate) fn with_empty_parts(map: &mut Map<String, Value>, parts: &[&str]) {
    for part in parts {
        map.entry(*part).or_insert(Value::Null);
    }
}
