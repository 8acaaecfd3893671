//! `rmi`: removes images with all their names, as the CRI offers nothing else.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, bail};
use orlop_cri_api::client::ImageClient;
use orlop_cri_api::v1::{Container, Image, ImageSpec};

use crate::connect::Session;
use crate::families::side_by_side;
use crate::output::write_all;

/// Arguments of `rmi`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the images
    #[arg(value_name = "IMAGE", required_unless_present_any = ["all", "prune"])]
    images: Vec<String>,

    /// Remove all images
    #[arg(short, long)]
    all: bool,

    /// Remove all images that no container uses, except pinned images
    #[arg(short = 'q', long)]
    prune: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let client = session.patient_images().await?;
    let mut names: BTreeSet<String> = args.images.iter().cloned().collect();
    if args.all || args.prune {
        let found = client.list_images(None).await?;
        names.extend(
            found
                .into_iter()
                .filter(|image| !(args.prune && image.pinned))
                .map(|i| i.id),
        );
    }
    if args.prune {
        for id in in_use(session, &client, |_| true).await? {
            names.remove(&id);
        }
    }
    if names.is_empty() {
        say!("no image to remove");
    }
    if !args.images.is_empty() {
        names = distinct(&client, names).await;
    }
    side_by_side::each(names, |name| remove(client.clone(), name, args.prune)).await
}

/// Keeps one name of each image: an image given by several names is removed once.
async fn distinct(client: &ImageClient, names: BTreeSet<String>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let mut distinct = BTreeSet::new();
    for name in names {
        // If the image is unknown, the removal reports that.
        let status = client.image_status(spec(&name), false).await;
        let image = status.ok().and_then(|status| status.image);
        if image.is_none_or(|image| ids.insert(image.id)) {
            distinct.insert(name);
        }
    }
    distinct
}

/// Returns the IDs of images that are used by containers that `counts` accepts.
pub(super) async fn in_use(
    session: &Session,
    client: &ImageClient,
    counts: impl Fn(&Container) -> bool,
) -> anyhow::Result<BTreeSet<String>> {
    let containers = session
        .patient_runtime(None)
        .await?
        .list_containers(None)
        .await?;
    let names: BTreeSet<String> = containers
        .into_iter()
        .filter(counts)
        .flat_map(|container| {
            [
                container.image.unwrap_or_default().image,
                container.image_id,
            ]
        })
        .filter(|name| !name.is_empty())
        .collect();
    let mut ids = BTreeSet::new();
    for name in names {
        let status = client.image_status(spec(&name), false).await;
        // An error is better than removing an image that may be in use.
        let status = status.with_context(|| format!("cannot determine which image {name} is"))?;
        ids.extend(status.image.map(|image| image.id));
    }
    Ok(ids)
}

async fn remove(client: ImageClient, name: String, pruning: bool) -> anyhow::Result<()> {
    let status = client.image_status(spec(&name), false).await;
    let status = status.with_context(|| format!("cannot find image {name}"))?;
    let Some(image) = status.image else {
        // Another client removed it since it was listed.
        if pruning {
            return Ok(());
        }
        bail!("no such image {name}");
    };
    if image.repo_tags.len() > 1 && !image.id.contains(&name) {
        say!(
            "warning: all tags of {name} are removed: {}",
            image.repo_tags.join(", ")
        );
    }
    if let Err(error) = client.remove_image(spec(&name)).await {
        if pruning {
            say!("warning: cannot remove image {name}: {error}");
            return Ok(());
        }
        return Err(error).with_context(|| format!("cannot remove image {name}"));
    }
    Ok(write_all(&deleted(&image))?)
}

/// Returns the message for a removed image.
pub(super) fn deleted(image: &Image) -> String {
    let names = if image.repo_tags.is_empty() {
        &image.repo_digests
    } else {
        &image.repo_tags
    };
    let mut text = String::new();
    for name in names {
        let _ = writeln!(text, "Deleted: {name}");
    }
    text
}

fn spec(name: &str) -> ImageSpec {
    ImageSpec {
        image: name.to_owned(),
        ..Default::default()
    }
}
