//! `version`: who the runtime is.

use std::io::Write;

use super::output::stdout;
use super::session::Session;

/// No flags.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) async fn run(_: Args, session: &Session) -> anyhow::Result<()> {
    let answer = session.runtime().await?.version().await?;
    let mut out = stdout();
    writeln!(out, "Version:  {}", answer.version)?;
    writeln!(out, "RuntimeName:  {}", answer.runtime_name)?;
    writeln!(out, "RuntimeVersion:  {}", answer.runtime_version)?;
    writeln!(out, "RuntimeApiVersion:  {}", answer.runtime_api_version)?;
    Ok(out.flush()?)
}
