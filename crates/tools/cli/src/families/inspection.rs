//! Common parts of `inspect`, `inspectp` and `inspecti`: query each object, and print its status and the runtime's
//! additional information.

use std::collections::HashMap;
use std::io::{self, Write};

use anyhow::bail;
use serde_json::{Map, Value};

use crate::output::{Format, FormatFlags, StatusReport, labels, print_reports, stdout};

/// Output flags of the inspect commands.
#[derive(Debug, clap::Args)]
pub(crate) struct InspectionFlags {
    #[command(flatten)]
    format: FormatFlags,

    /// Hide the additional information of the runtime
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl InspectionFlags {
    /// Returns the requested format. A mistake in it is reported before any call.
    pub(crate) fn format(&self) -> anyhow::Result<Format> {
        self.format.or_json()
    }
}

/// Status of an object, as the runtime reports it.
pub(crate) trait Inspected {
    /// Name of the kind of object.
    const NAME: &'static str;

    /// Formats the status for programs.
    fn value(&self) -> Value;
    /// Prints the status for people.
    fn table(&self, out: &mut impl Write) -> io::Result<()>;
}

/// Queries and prints the status of each of `names`.
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

/// Adds these parts if they are missing: scripts rely on them.
pub(crate) fn with_empty_parts(map: &mut Map<String, Value>, parts: &[&str]) {
    for part in parts {
        map.entry(*part).or_insert(Value::Null);
    }
}
