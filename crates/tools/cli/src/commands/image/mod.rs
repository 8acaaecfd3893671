//! `image`: orlop's image operations beyond the CRI. Without a subcommand it is an alias of `images`, as in crictl.

mod client;
mod export;
mod fetch;
mod gc;
mod import;
mod policy;
mod resolve;
mod verify;

use std::process::ExitCode;

use clap::Subcommand;

pub use import::import_archive;

use super::images;
use crate::connect::Session;

/// Arguments of `image`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[group(skip)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,

    #[command(flatten)]
    list: images::Args,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Import images from an archive
    Import(import::Args),
    /// Export images to an archive
    Export(export::Args),
    /// Fetch all remaining data of lazily pulled images
    Fetch(fetch::Args),
    /// Verify the digests of stored images
    Verify(verify::Args),
    /// Show whether the signature policy allows an image, and by which rule and key
    Policy(policy::Args),
    /// Show the full name of an image and the registries it is pulled from
    Resolve(resolve::Args),
    /// Remove data that no image, pull or container uses
    Gc(gc::Args),
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    match args.verb {
        None => images::run(args.list, session).await?,
        Some(Verb::Import(args)) => import::run(args, session).await?,
        Some(Verb::Export(args)) => export::run(args, session).await?,
        Some(Verb::Fetch(args)) => return fetch::run(args, session).await,
        Some(Verb::Verify(args)) => return verify::run(args, session).await,
        Some(Verb::Policy(args)) => return policy::run(args, session).await,
        Some(Verb::Resolve(args)) => return resolve::run(args, session).await,
        Some(Verb::Gc(args)) => gc::run(args, session).await?,
    }
    Ok(ExitCode::SUCCESS)
}
