//! `attach`: attaches to the standard streams of a running container.

use orlop_cri_api::v1::AttachRequest;
use orlop_streaming::client;

use crate::connect::{Session, TransportFlags, whole_url};
use crate::input::select;
use crate::terminal::Side;

/// Arguments of `attach`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name or ID of the container
    #[arg(value_name = "CONTAINER")]
    container: String,

    /// The container has a TTY
    #[arg(short, long)]
    tty: bool,

    /// Pass standard input to the container
    #[arg(short = 'i', long)]
    stdin: bool,

    #[command(flatten)]
    transport: TransportFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let runtime = session.patient_runtime(None).await?;
    let container_id = select::container(&runtime, &args.container).await?;
    let (side, streams) = Side::take(args.stdin, args.tty)?;
    let request = AttachRequest {
        container_id,
        stdin: args.stdin,
        tty: args.tty,
        stdout: true,
        stderr: !args.tty,
    };
    let url = whole_url(&runtime.attach(request).await?);
    let options = args.transport.options(&url)?;
    tokio::select! {
        result = client::attach(&url, &options, streams) => Ok(result?),
        () = side.detached() => Ok(()),
    }
}
