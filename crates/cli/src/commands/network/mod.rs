//! `network`: what the pods have of the networks. Only orlop tells.

mod gc;
mod inspect;
mod ls;

use std::process::ExitCode;

use clap::Subcommand;
use orlop_cri::extensions::networks_client::NetworksClient;
use tonic::transport::Channel;

use crate::connect::Session;

/// What to do.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the networks, or what is attached to them
    Ls(ls::Args),
    /// Show what pods have, in full
    Inspect(inspect::Args),
    /// Release what belongs to no pod
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

async fn client(session: &Session) -> anyhow::Result<NetworksClient<Channel>> {
    Ok(session.patient_connection().await?.orlop_networks())
}
