//! `network`: inspects and cleans up pod networks. Only orlop supports it.

mod client;
mod gc;
mod inspect;
mod ls;

use std::process::ExitCode;

use clap::Subcommand;

use crate::connect::Session;

/// Arguments of `network`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List networks, or the pods attached to them
    Ls(ls::Args),
    /// Show the network attachments of pods
    Inspect(inspect::Args),
    /// Release addresses and interfaces that belong to no pod
    Gc(gc::Args),
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Ls(args) => ls::run(args, session).await.map(|()| ExitCode::SUCCESS),
        Verb::Inspect(args) => inspect::run(args, session)
            .await
            .map(|()| ExitCode::SUCCESS),
        Verb::Gc(args) => gc::run(args, session).await,
    }
}
