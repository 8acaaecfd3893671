//! `port-forward`: forwards local ports into a pod.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use anyhow::Context;
use orlop_streaming::client::{self, Forward, ForwardEvent};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::connect::{Session, TransportFlags, whole_url};
use crate::input::select;
use crate::output::write_all;
use crate::terminal::interrupt;

/// Arguments of `port-forward`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name or ID of the pod
    #[arg(value_name = "POD")]
    pod: String,

    /// Ports to forward: PORT for the same local port, LOCAL:PORT, or :PORT for any free local port
    #[arg(value_name = "[LOCAL:]PORT", required = true)]
    ports: Vec<Ports>,

    #[command(flatten)]
    transport: TransportFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ports {
    /// Zero for any free port.
    local: u16,
    remote: u16,
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let port = |text: &str| {
            text.parse::<u16>()
                .ok()
                .filter(|port| *port > 0)
                .ok_or(format!("`{text}` is not a valid port"))
        };
        match text.split_once(':') {
            None => port(text).map(|port| Self {
                local: port,
                remote: port,
            }),
            Some(("" | "0", remote)) => Ok(Self {
                local: 0,
                remote: port(remote)?,
            }),
            Some((local, remote)) => Ok(Self {
                local: port(local)?,
                remote: port(remote)?,
            }),
        }
    }
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let runtime = session.patient_runtime(None).await?;
    let pod = select::pod(&runtime, &args.pod).await?;
    let mut forwards = Vec::new();
    for ports in &args.ports {
        forwards.extend(listeners(*ports).await?);
    }
    let wanted = args.ports.iter().map(|ports| ports.remote.into()).collect();
    let url = whole_url(&runtime.port_forward(&pod, wanted).await?);
    let mut ways = String::new();
    for forward in &forwards {
        let address = forward.listener.local_addr()?;
        let _ = writeln!(ways, "Forwarding from {address} -> {}", forward.port);
    }
    // If nobody reads the output, the ports are forwarded all the same.
    let _ = write_all(&ways);
    let stop = CancellationToken::new();
    let interrupted = stop.clone();
    let watcher = tokio::spawn(async move {
        if interrupt::received().await.is_ok() {
            interrupted.cancel();
        }
    });
    let options = args.transport.options(&url)?;
    let result = client::port_forward(&url, &options, forwards, stop, report).await;
    watcher.abort();
    Ok(result?)
}

/// Listens on both loopback addresses, if the machine has them.
async fn listeners(ports: Ports) -> anyhow::Result<Vec<Forward>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, ports.local)).await;
    let listener = listener.with_context(|| format!("cannot listen on port {}", ports.local))?;
    let local = listener.local_addr()?.port();
    let mut forwards = vec![Forward {
        listener,
        port: ports.remote,
    }];
    if let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, local)).await {
        forwards.push(Forward {
            listener,
            port: ports.remote,
        });
    }
    Ok(forwards)
}

fn report(event: ForwardEvent) {
    match event {
        ForwardEvent::Accepted { port } => say!("Handling connection for {port}"),
        ForwardEvent::Failed { port, reason } => say!("port {port}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_in_three_ways() {
        let read = |text: &str| {
            text.parse::<Ports>()
                .map(|ports| (ports.local, ports.remote))
        };
        assert_eq!(read("80"), Ok((80, 80)));
        assert_eq!(read("8080:80"), Ok((8080, 80)));
        assert_eq!(read(":80"), Ok((0, 80)));
        assert_eq!(read("0:80"), Ok((0, 80)));
        for wrong in ["", "0", "x", "80:", "80:0", "70000", "1:2:3"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
