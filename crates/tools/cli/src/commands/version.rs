//! `version`: shows the name and version of the runtime.

use std::io::Write;

use crate::connect::Session;
use crate::output::stdout;

/// Arguments of `version`.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) async fn run(_: Args, session: &Session) -> anyhow::Result<()> {
    let answer = session.runtime().await?.version().await?;
    let mut out = stdout();
    writeln!(out, "Version:  {}", answer.version)?;
    writeln!(out, "RuntimeName:  {}", answer.runtime_name)?;
    writeln!(out, "RuntimeVersion:  {}", answer.runtime_version)?;
    writeln!(out, "RuntimeApiVersion:  {}", answer.runtime_api_version)?;
    Ok(out.flush()?)
}
