//! `inspecti`: shows all details of images.

use std::io::{self, Write};

use anyhow::bail;
use orlop_cri_api::json;
use orlop_cri_api::v1::{Image, ImageSpec};
use serde_json::Value;

use super::images::ImageFlags;
use crate::connect::Session;
use crate::families::inspection::{self, Inspected, InspectionFlags};
use crate::output::short_bytes;

/// Arguments of `inspecti`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the images; without any, all images that match the flags
    #[arg(value_name = "IMAGE")]
    images: Vec<String>,

    /// Only the image of this name
    #[arg(long)]
    name: Option<String>,

    #[command(flatten)]
    which: ImageFlags,

    #[command(flatten)]
    shown: InspectionFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.shown.format()?;
    let client = session.images().await?;
    let names = if args.images.is_empty() {
        let found = args.which.list(&client, args.name).await?;
        found.into_iter().map(|image| image.id).collect()
    } else {
        args.images
    };
    let ask = async |name: &str| {
        let spec = ImageSpec {
            image: name.to_owned(),
            ..Default::default()
        };
        let answer = client.image_status(spec, !args.shown.quiet).await?;
        match answer.image {
            Some(image) => Ok((image, answer.info)),
            None => bail!("no such image \"{name}\" present"),
        }
    };
    inspection::show(names, &args.shown, &format, ask).await
}

impl Inspected for Image {
    const NAME: &'static str = "image";

    fn value(&self) -> Value {
        json::to_value(self)
    }

    fn table(&self, out: &mut impl Write) -> io::Result<()> {
        table(out, self)
    }
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
