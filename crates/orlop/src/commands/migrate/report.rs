//! The report of a migration.

use std::io::{self, Write};

use clap::ValueEnum;
use orlop_cri_api::inspection::{Finding, FindingLevel};
use orlop_migrate::{Note, Outcome, Plan};
use serde_json::json;

/// Format of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Table,
    Json,
}

pub(super) fn print(format: Format, plan: &Plan, findings: &[Finding]) -> io::Result<()> {
    let mut out = orlop_cli::stdout();
    match format {
        Format::Table => table(&mut out, plan, findings)?,
        Format::Json => document(&mut out, plan, findings)?,
    }
    out.flush()
}

/// A heading, and a function that returns the text of the lines below it.
type Section = (&'static str, fn(&Outcome) -> Option<&str>);

fn table(out: &mut impl Write, plan: &Plan, findings: &[Finding]) -> io::Result<()> {
    let sections: [Section; 3] = [
        ("MIGRATED", |outcome| match outcome {
            Outcome::Taken(key) => Some(key),
            _ => None,
        }),
        ("NOT NEEDED", |outcome| match outcome {
            Outcome::Needless(why) => Some(why),
            _ => None,
        }),
        ("NO EQUIVALENT", |outcome| match outcome {
            Outcome::Lost(what) => Some(what),
            _ => None,
        }),
    ];
    for (heading, of) in sections {
        writeln!(out, "{heading}")?;
        for note in &plan.notes {
            if let Some(text) = of(&note.outcome) {
                let line = format!("  {}: {} = {} → {text}", place(note), note.key, note.value);
                writeln!(out, "{}", line.replace(char::is_control, " "))?;
            }
        }
        writeln!(out)?;
    }
    writeln!(out, "THIS NODE")?;
    for finding in findings {
        let text = finding.text.replace(char::is_control, " ");
        writeln!(out, "  {:<8} {:<10} {text}", word(finding), finding.area)?;
        if !finding.remedy.is_empty() {
            writeln!(out, "  {:<19} → {}", "", finding.remedy)?;
        }
    }
    Ok(())
}

fn document(out: &mut impl Write, plan: &Plan, findings: &[Finding]) -> io::Result<()> {
    let notes = plan.notes.iter().map(|note| {
        let (state, text) = match &note.outcome {
            Outcome::Taken(key) => ("taken", key),
            Outcome::Needless(why) => ("needless", why),
            Outcome::Lost(what) => ("lost", what),
        };
        json!({
            "file": note.file,
            "line": note.line,
            "key": note.key,
            "value": note.value,
            "state": state,
            "text": text,
        })
    });
    let found = findings.iter().map(|finding| {
        json!({
            "area": finding.area,
            "state": word(finding),
            "text": finding.text,
            "remedy": finding.remedy,
        })
    });
    let notes: Vec<_> = notes.collect();
    let found: Vec<_> = found.collect();
    let files: Vec<_> = plan.files.keys().collect();
    let document = json!({ "lines": notes, "files": files, "node": found });
    writeln!(out, "{document:#}")
}

fn place(note: &Note) -> String {
    format!("{}:{}", note.file.display(), note.line)
}

fn word(finding: &Finding) -> &'static str {
    match finding.level() {
        FindingLevel::Ok => "ok",
        FindingLevel::Warning => "warning",
        FindingLevel::Problem => "problem",
    }
}
