//! The actions of probes and hooks: HTTP requests, TCP connections, gRPC health checks.

use std::net::IpAddr;
use std::time::Duration;

use orlop_kubelet_rules::pod::{Container, HttpGetAction, Port};

use super::http::HttpTarget;
use super::lookup;

/// Resolves a port that is given by number, or by the name of a container port.
pub(crate) fn port_number(port: &Port, container: &Container) -> Result<u16, String> {
    let number = match port {
        Port::Number(number) => Some(*number),
        Port::Name(name) => container
            .ports
            .iter()
            .find(|p| p.name == *name)
            .map(|p| p.container_port)
            .or_else(|| name.parse().ok()),
    };
    number.filter(|n| *n > 0).ok_or_else(|| match port {
        Port::Name(name) => format!(
            "couldn't find port {name:?} in container {:?}",
            container.name
        ),
        Port::Number(number) => format!("invalid port number: {number}"),
    })
}

/// Returns the target of an HTTP check: the pod's own address unless it names a host.
pub(crate) fn http_target(
    action: &HttpGetAction,
    container: &Container,
    pod_ip: Option<IpAddr>,
    agent: &'static str,
) -> Result<HttpTarget, String> {
    let host = if action.host.is_empty() {
        pod_ip
            .map(|ip| ip.to_string())
            .ok_or("the pod has no IP address yet")?
    } else {
        action.host.clone()
    };
    let path = if action.path.starts_with('/') {
        action.path.clone()
    } else {
        format!("/{}", action.path)
    };
    Ok(HttpTarget {
        secure: action.scheme.eq_ignore_ascii_case("https"),
        host,
        port: port_number(&action.port, container)?,
        path,
        headers: action
            .http_headers
            .iter()
            .map(|h| (h.name.clone(), h.value.clone()))
            .collect(),
        agent,
    })
}

/// Opens a TCP connection and closes it again.
pub(crate) async fn tcp_connect(host: &str, port: u16, limit: Duration) -> Result<(), String> {
    let connect = lookup::connect(host, port);
    match tokio::time::timeout(limit, connect).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("dial tcp {host}:{port}: {error}")),
        Err(_) => Err(format!("dial tcp {host}:{port}: i/o timeout")),
    }
}
