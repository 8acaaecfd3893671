//! `network ls`: lists networks, or the pods attached to them.

use std::io::Write;

use orlop_cri_api::extensions::{
    AttachmentState, ListAttachmentsRequest, ListAttachmentsResponse, ListNetworksRequest,
    ListNetworksResponse, PodAttachment,
};

use super::client::client;
use crate::connect::{Session, refused};
use crate::output::{self, FormatFlags, Table, short_id, stdout};

/// Arguments of `network ls`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// List attached pods with their addresses and ports
    #[arg(short, long)]
    pods: bool,

    /// List only attachments whose pod no longer exists
    #[arg(long, requires = "pods")]
    orphaned: bool,

    /// Show only IDs (for networks: names)
    #[arg(short, long)]
    quiet: bool,

    /// Show full IDs
    #[arg(long)]
    no_trunc: bool,

    #[command(flatten)]
    format: FormatFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_table()?;
    let mut client = client(session).await?;
    let mut out = stdout();
    if args.pods {
        let answer = client.list_attachments(ListAttachmentsRequest::default());
        let mut attachments = answer.await.map_err(refused)?.into_inner().attachments;
        attachments.retain(|one| !args.orphaned || one.state() == AttachmentState::Orphaned);
        let answer = ListAttachmentsResponse { attachments };
        if !output::list(&mut out, &answer, &format)? {
            pods(&answer.attachments, &args, &mut out)?;
        }
    } else {
        let answer = client.list_networks(ListNetworksRequest {});
        let answer = answer.await.map_err(refused)?.into_inner();
        if !output::list(&mut out, &answer, &format)? {
            networks(&answer, args.quiet, &mut out)?;
        }
    }
    Ok(out.flush()?)
}

fn networks(
    answer: &ListNetworksResponse,
    quiet: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if quiet {
        for network in &answer.networks {
            writeln!(out, "{}", network.name)?;
        }
        return Ok(());
    }
    let mut table = Table::new(["NETWORK", "CNI VERSION", "RUN", "PODS", "PLUGINS"]);
    for network in &answer.networks {
        let run = if network.in_process {
            "in process"
        } else {
            "as programs"
        };
        table.row([
            network.name.clone(),
            network.cni_version.clone(),
            run.to_owned(),
            network.pods.to_string(),
            network.plugins.join(", "),
        ]);
    }
    table.print(out)?;
    out.flush()?;
    if !answer.ready {
        say!("not ready: {} ({})", answer.message, answer.reason);
    }
    for warning in &answer.warnings {
        say!("warning: {warning}");
    }
    Ok(())
}

fn pods(attachments: &[PodAttachment], args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let id = |one: &PodAttachment| {
        if args.no_trunc || args.quiet {
            one.pod_sandbox_id.clone()
        } else {
            short_id(&one.pod_sandbox_id).to_owned()
        }
    };
    if args.quiet {
        for one in attachments {
            writeln!(out, "{}", id(one))?;
        }
        return Ok(());
    }
    let mut table = Table::new([
        "POD ID",
        "POD",
        "NAMESPACE",
        "STATE",
        "ADDRESSES",
        "NETWORKS",
        "HOST PORTS",
    ]);
    for one in attachments {
        let networks = one.networks.iter();
        let networks = networks.map(|to| format!("{} ({})", to.network, to.interface));
        table.row([
            id(one),
            one.name.clone(),
            one.namespace.clone(),
            state(one.state()).to_owned(),
            one.ips.join(", "),
            networks.collect::<Vec<_>>().join(", "),
            host_ports(one),
        ]);
    }
    Ok(table.print(out)?)
}

fn state(state: AttachmentState) -> &'static str {
    match state {
        AttachmentState::Attached => "attached",
        AttachmentState::Unfinished => "unfinished",
        AttachmentState::Orphaned => "orphaned",
    }
}

/// Formats `127.0.0.1:8080->80/tcp`, as other tools do.
fn host_ports(attachment: &PodAttachment) -> String {
    let ports = attachment.host_ports.iter().map(|port| {
        let host = if port.host_ip.is_empty() {
            port.host_port.to_string()
        } else if port.host_ip.contains(':') {
            format!("[{}]:{}", port.host_ip, port.host_port)
        } else {
            format!("{}:{}", port.host_ip, port.host_port)
        };
        format!("{host}->{}/{}", port.container_port, port.protocol)
    });
    ports.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::extensions::HostPort;

    use super::*;

    #[test]
    fn host_ports_are_shown_as_elsewhere() {
        let port = |host_ip: &str| HostPort {
            host_ip: host_ip.into(),
            host_port: 8080,
            container_port: 80,
            protocol: "tcp".into(),
        };
        let attachment = PodAttachment {
            host_ports: vec![port(""), port("127.0.0.1"), port("::1")],
            ..Default::default()
        };
        assert_eq!(
            host_ports(&attachment),
            "8080->80/tcp, 127.0.0.1:8080->80/tcp, [::1]:8080->80/tcp"
        );
    }
}
