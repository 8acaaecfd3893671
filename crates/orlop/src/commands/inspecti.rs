//! `inspecti`: images in full.

use std::io::{self, Write};

use anyhow::bail;
use orlop_cri::json;
use orlop_cri::v1::{Image, ImageSpec};

use super::images::ImageFlags;
use super::output::{
    Format, FormatFlags, StatusReport, labels, print_reports, short_bytes, stdout,
};
use super::session::Session;

/// Which images, and how to show them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The images; none for those that the flags let through
    #[arg(value_name = "IMAGE")]
    images: Vec<String>,

    /// Only the image of this name
    #[arg(long)]
    name: Option<String>,

    #[command(flatten)]
    which: ImageFlags,

    #[command(flatten)]
    format: FormatFlags,

    /// Leave out what the runtime adds of its own
    #[arg(short, long)]
    quiet: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_json()?;
    let client = session.images().await?;
    let names = if args.images.is_empty() {
        let found = args.which.list(&client, args.name).await?;
        found.into_iter().map(|image| image.id).collect()
    } else {
        args.images
    };
    if names.is_empty() {
        bail!("there is no such image");
    }
    let mut out = stdout();
    let mut reports = Vec::new();
    for name in names {
        let spec = ImageSpec {
            image: name.clone(),
            ..Default::default()
        };
        let answer = client.image_status(spec, !args.quiet).await?;
        let Some(image) = answer.image else {
            bail!("no such image \"{name}\" present")
        };
        if matches!(format, Format::Table) {
            table(&mut out, &image)?;
            if !args.quiet {
                labels(&mut out, "Info", &answer.info)?;
            }
        } else {
            reports.push(StatusReport::new(json::to_value(&image), answer.info));
        }
    }
    print_reports(&mut out, reports, &format)?;
    Ok(out.flush()?)
}

fn table(out: &mut impl Write, image: &Image) -> io::Result<()> {
    writeln!(out, "ID: {}", image.id)?;
    for tag in &image.repo_tags {
        writeln!(out, "Tag: {tag}")?;
    }
    for digest in &image.repo_digests {
        writeln!(out, "Digest: {digest}")?;
    }
    writeln!(out, "Size: {}", short_bytes(image.size))
}
