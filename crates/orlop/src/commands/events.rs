//! `events`: what happens to containers, as it happens.

use std::io::Write;

use anyhow::bail;

use super::output::{self, Format, FormatFlags, stdout};
use super::session::Session;

/// How to show them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    format: FormatFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_json()?;
    if matches!(format, Format::Table) {
        bail!("events come as json, yaml or go-template");
    }
    let mut events = session.runtime().await?.container_events().await?;
    let mut out = stdout();
    while let Some(event) = events.next().await? {
        output::list(&mut out, &event, &format)?;
        out.flush()?;
    }
    Ok(())
}
