//! `runtime-config`: shows the settings that the kubelet and the runtime share.

use std::io::Write;

use crate::connect::Session;
use crate::output::{Table, stdout};

/// Arguments of `runtime-config`.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) async fn run(_: Args, session: &Session) -> anyhow::Result<()> {
    let answer = session.runtime().await?.runtime_config().await?;
    let mut table = Table::bare(10);
    if let Some(linux) = answer.linux {
        table.row(["cgroup driver:", linux.cgroup_driver().as_str_name()]);
    }
    let mut out = stdout();
    table.print(&mut out)?;
    Ok(out.flush()?)
}
