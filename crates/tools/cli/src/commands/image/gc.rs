//! `image gc`: removes data that no image, pull or container uses.

use std::fmt::Write as _;

use anyhow::Context;
use orlop_cri_api::images::CollectGarbageRequest;

use super::client::client;
use crate::connect::{Session, refused};
use crate::output::{bytes, write_all};

/// Arguments of `image gc`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print what would be removed, but remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Also remove images that no container uses, except pinned images
    #[arg(long)]
    unused: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let request = CollectGarbageRequest {
        dry_run: args.dry_run,
        unused_images: args.unused,
    };
    let mut client = client(session).await?;
    let answer = client.collect_garbage(request).await.map_err(refused);
    let answer = answer.context("cannot collect garbage")?.into_inner();
    let (did, freed) = if args.dry_run {
        ("Would remove", "Would free")
    } else {
        ("Removed", "Freed")
    };
    let mut text = String::new();
    for digest in &answer.removed {
        let _ = writeln!(text, "{did} {digest}");
    }
    let _ = writeln!(text, "{freed} {}", bytes(answer.freed_bytes));
    Ok(write_all(&text)?)
}
