//! `apply`: sends manifests to a running node agent, which stores and applies them.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use orlop_agent::Weight;
use orlop_cli::{say, stdout};

use super::node::socket::{AgentArgs, Outcome, encoded};

/// Manifests are small; a larger file is not a manifest.
const LARGEST: u64 = 10 << 20;

/// Arguments of `apply`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    /// Manifest file, or a directory of manifests; - is standard input
    #[arg(short, long, value_name = "PATH", required = true)]
    filename: Vec<PathBuf>,

    #[command(flatten)]
    agent: AgentArgs,
}

impl ApplyArgs {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut good = true;
        for path in manifests(&self.filename)? {
            let (origin, text) = read(&path)?;
            let order = format!("/orlop/v1/apply?origin={}", encoded(&origin));
            good &= show(&self.agent.order(&order, text)?)?;
        }
        Ok(if good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Returns the manifest files to apply; of a directory, the files with a manifest extension.
pub(super) fn manifests(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut within = Vec::new();
        let entries =
            fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
        for entry in entries {
            let file = entry?.path();
            let extension = file.extension().and_then(|it| it.to_str());
            if matches!(extension, Some("yaml" | "yml" | "json")) && file.is_file() {
                within.push(file);
            }
        }
        if within.is_empty() {
            bail!("no *.yaml, *.yml or *.json files in {}", path.display());
        }
        within.sort();
        files.extend(within);
    }
    Ok(files)
}

/// Reads a manifest and returns it with its name for messages.
pub(super) fn read(path: &Path) -> anyhow::Result<(String, String)> {
    let (name, read) = if path == Path::new("-") {
        let read = orlop_fs::read_whole_text(std::io::stdin(), LARGEST);
        ("stdin".to_owned(), read)
    } else {
        let file = fs::File::open(path);
        let read = file.and_then(|file| orlop_fs::read_whole_text(file, LARGEST));
        (path.display().to_string(), read)
    };
    match read {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            bail!("{name} is too large for a manifest: {error}")
        }
        read => {
            let text = read.with_context(|| format!("cannot read {name}"))?;
            Ok((name, text))
        }
    }
}

/// Prints the outcome. Returns `false` if an object failed.
pub(super) fn show(outcome: &Outcome) -> anyhow::Result<bool> {
    let mut out = stdout();
    for applied in &outcome.applied {
        writeln!(out, "{} {}", applied.object, applied.verb)?;
    }
    out.flush()?;
    for remark in &outcome.remarks {
        say!("{remark}");
    }
    Ok(outcome
        .remarks
        .iter()
        .all(|remark| remark.weight != Weight::Error))
}
