//! The sockets of the daemon: its own, or those that the service manager passed.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use orlop_listen::Listener;

use crate::config::Config;
use crate::config::values::{Group, MetricsEndpoint};
use crate::service_manager::Socket;

/// The sockets of a daemon.
#[derive(Debug)]
pub(super) struct Endpoints {
    pub(super) grpc: Vec<Listener>,
    pub(super) metrics: MetricsSocket,
}

/// The socket of the metrics endpoint.
#[derive(Debug, Default)]
pub(super) struct MetricsSocket {
    pub(super) listener: Option<Listener>,
    /// Whether the service manager created it.
    pub(super) is_managed: bool,
}

/// Mode of a unix socket: access for its owner and its group.
const MODE: u32 = 0o660;

/// Name of the metrics socket in a socket unit (`FileDescriptorName=`); all other sockets are for gRPC.
const METRICS: &str = "metrics";

impl Endpoints {
    pub(super) fn open(config: &Config, passed: Vec<Socket>) -> anyhow::Result<Self> {
        let group = group(config)?;
        let metrics = &config.metrics;
        // The same requirement holds for an address in the configuration.
        let is_guarded = metrics.tls_cert.is_some()
            && (metrics.client_ca.is_some() || metrics.token_file.is_some());
        let mut endpoints = Self::from_manager(passed, is_guarded)?;
        if endpoints.grpc.is_empty() {
            for path in &config.grpc.listen {
                endpoints.grpc.push(Listener::unix(path, MODE, group)?);
            }
        }
        if !endpoints.metrics.is_managed {
            endpoints.metrics.listener = Self::metrics_of(config)?;
        }
        Ok(endpoints)
    }

    /// Opens the configured metrics socket, if any.
    pub(super) fn metrics_of(config: &Config) -> anyhow::Result<Option<Listener>> {
        Ok(match &config.metrics.listen {
            None => None,
            Some(MetricsEndpoint::Unix(path)) => Some(Listener::unix(path, MODE, group(config)?)?),
            Some(MetricsEndpoint::Tcp(address)) => Some(tcp(*address, "metrics")?),
        })
    }

    /// Opens the configured web page socket, if any.
    pub(super) fn web_of(config: &Config) -> anyhow::Result<Option<Listener>> {
        Ok(match &config.web.listen {
            None => None,
            Some(MetricsEndpoint::Unix(path)) => Some(Listener::unix(path, MODE, group(config)?)?),
            Some(MetricsEndpoint::Tcp(address)) => Some(tcp(*address, "the page")?),
        })
    }

    fn from_manager(passed: Vec<Socket>, is_guarded: bool) -> anyhow::Result<Self> {
        let mut endpoints = Self {
            grpc: Vec::new(),
            metrics: MetricsSocket::default(),
        };
        for Socket { name, fd } in passed {
            let listener = Listener::inherited(fd)?;
            if name == METRICS {
                if !listener.is_local() && !is_guarded {
                    bail!(
                        "the socket passed for metrics, {}, is open to other machines; set \
                         metrics.tls_cert and tls_key, and client_ca or token_file, or use a \
                         loopback address or a unix socket",
                        listener.address(),
                    );
                }
                endpoints.metrics = MetricsSocket {
                    listener: Some(listener),
                    is_managed: true,
                };
            } else if listener.is_unix() {
                endpoints.grpc.push(listener);
            } else {
                bail!(
                    "the socket passed by the service manager, {}, is not a unix socket; use a \
                     unix socket, because CRI clients have full control of the node",
                    listener.address(),
                );
            }
        }
        Ok(endpoints)
    }
}

fn group(config: &Config) -> anyhow::Result<Option<u32>> {
    let group = config.grpc.group.as_ref().map(Group::resolve).transpose();
    group.map_err(|error| anyhow::anyhow!("grpc.group: {error}"))
}

fn tcp(address: SocketAddr, what: &str) -> anyhow::Result<Listener> {
    Listener::tcp(address)
        .with_context(|| format!("cannot listen on tcp://{address}"))
        .with_context(|| format!("cannot serve {what}"))
}
