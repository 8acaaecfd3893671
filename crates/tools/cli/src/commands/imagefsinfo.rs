//! `imagefsinfo`: shows the disk usage of the filesystems of images and containers.

use std::io::{self, Write};

use orlop_cri_api::json;
use orlop_cri_api::v1::FilesystemUsage;

use crate::connect::Session;
use crate::output::{Format, FormatFlags, StatusReport, bytes, print_reports, stdout};

/// Arguments of `imagefsinfo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: FormatFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_json()?;
    let answer = session.images().await?.image_fs_info().await?;
    let mut out = stdout();
    if matches!(format, Format::Table) {
        table(&mut out, "Container", &answer.container_filesystems)?;
        table(&mut out, "Image", &answer.image_filesystems)?;
    } else {
        let report = StatusReport::new(json::to_value(&answer), std::collections::HashMap::new());
        print_reports(&mut out, vec![report], &format)?;
    }
    Ok(out.flush()?)
}

fn table(out: &mut impl Write, kind: &str, usages: &[FilesystemUsage]) -> io::Result<()> {
    writeln!(out, "{kind} Filesystem ")?;
    for (number, usage) in usages.iter().enumerate() {
        let used = usage.used_bytes.map_or(0, |used| used.value);
        let inodes = usage.inodes_used.map_or(0, |used| used.value);
        let place = usage.fs_id.as_ref().map_or("", |id| &id.mountpoint);
        writeln!(out, "TimeStamp[{number}]: {}", usage.timestamp)?;
        writeln!(out, "Disk[{number}]: {}", bytes(used))?;
        writeln!(out, "Inodes[{number}]: {inodes}")?;
        writeln!(out, "Mountpoint[{number}]: {place}")?;
    }
    Ok(())
}
