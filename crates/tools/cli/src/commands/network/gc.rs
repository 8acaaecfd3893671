//! `network gc`: releases network resources that belong to no pod.

use std::io::Write;
use std::process::ExitCode;

use orlop_cri_api::extensions::CollectNetworkGarbageRequest;

use super::client::client;
use crate::connect::{Session, refused};
use crate::output::{self, FormatFlags, Table, short_id, stdout};

/// Arguments of `network gc`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print what would be released, but release nothing. Resources that only CNI plugins can find
    /// are not listed
    #[arg(short = 'n', long)]
    dry_run: bool,

    #[command(flatten)]
    format: FormatFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    let format = args.format.or_table()?;
    let mut client = client(session).await?;
    let request = CollectNetworkGarbageRequest {
        dry_run: args.dry_run,
    };
    let answer = client.collect_network_garbage(request).await;
    let answer = answer.map_err(refused)?.into_inner();
    let mut out = stdout();
    if !output::list(&mut out, &answer, &format)? {
        if answer.released.is_empty() && answer.failed.is_empty() {
            say!("no orphaned attachments found");
        }
        if !answer.released.is_empty() {
            let word = if args.dry_run {
                "WOULD RELEASE"
            } else {
                "RELEASED"
            };
            let mut table = Table::new([word, "NETWORKS", "ADDRESSES"]);
            for one in &answer.released {
                table.row([
                    short_id(&one.pod_sandbox_id).to_owned(),
                    one.networks.join(", "),
                    one.ips.join(", "),
                ]);
            }
            table.print(&mut out)?;
        }
    }
    out.flush()?;
    for failed in &answer.failed {
        say!("orlop: cannot release {}: {}", failed.id, failed.problem);
    }
    Ok(if answer.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
