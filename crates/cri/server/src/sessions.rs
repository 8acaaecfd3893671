//! Exec, attach and port-forward: validation of requests, the URL for the client, and the streaming server.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::{
    AttachRequest, AttachResponse, ExecRequest, ExecResponse, PortForwardRequest,
    PortForwardResponse,
};
use orlop_streaming::{
    BackendError, BoxFuture, Change, Duplex, ExitOutcome, Server, Session, TlsFiles, TlsTerms,
    TooManyPending,
};

use crate::fault::{Fault, Invalid, chain};

/// Settings of the listener for sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streaming {
    /// The listening address; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Certificate and key files; without them sessions use plain HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The CA that must have issued the client certificates, if set.
    pub client_ca: Option<PathBuf>,
    /// TLS versions and cipher suites.
    pub terms: TlsTerms,
    /// A session without traffic for this long is closed.
    pub idle_timeout: Duration,
}

impl Streaming {
    fn files(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls.clone()?;
        Some(TlsFiles {
            certificate,
            key,
            client_ca: self.client_ca.clone(),
        })
    }

    /// Prepares new settings for a running server's `change`; returns the reason if they are invalid.
    pub fn prepare(&self, server: &Server) -> Result<Change, String> {
        let prepared = server.prepare(self.files(), self.terms.clone(), self.idle_timeout);
        prepared.map_err(|error| {
            format!(
                "cannot serve exec sessions with this configuration: {}",
                chain(&error)
            )
        })
    }

    /// Starts the server; returns the reason if it cannot.
    pub async fn serve(&self, host: impl Host) -> Result<Server, String> {
        let config = orlop_streaming::Config {
            address: self.listen,
            idle_timeout: self.idle_timeout,
            tls: self.files(),
            terms: self.terms.clone(),
            ..orlop_streaming::Config::default()
        };
        let server = Server::bind(config, Arc::new(Backend(host))).await;
        server.map_err(|error| format!("cannot serve exec sessions: {}", chain(&error)))
    }
}

/// Targets of sessions.
pub trait Host: Send + Sync + 'static {
    /// The error of a session.
    type Failure: Fault + 'static;

    /// Runs a command for a client.
    fn exec(
        &self,
        request: orlop_streaming::ExecRequest,
        client: Session,
    ) -> impl Future<Output = Result<ExitOutcome, Arc<Self::Failure>>> + Send;

    /// Connects a client to the streams of a container.
    fn attach(
        &self,
        request: orlop_streaming::AttachRequest,
        client: Session,
    ) -> impl Future<Output = Result<(), Arc<Self::Failure>>> + Send;

    /// Connects a client to a port of a pod.
    fn port_forward(
        &self,
        pod_id: &str,
        port: u16,
    ) -> impl Future<Output = Result<Box<dyn Duplex>, Arc<Self::Failure>>> + Send;
}

/// Adapter of a [`Host`] for the streaming server.
struct Backend<H>(H);

impl<H: Host> orlop_streaming::Backend for Backend<H> {
    fn exec(
        &self,
        request: orlop_streaming::ExecRequest,
        session: Session,
    ) -> BoxFuture<'_, Result<ExitOutcome, BackendError>> {
        Box::pin(async move { self.0.exec(request, session).await.map_err(told) })
    }

    fn attach(
        &self,
        request: orlop_streaming::AttachRequest,
        session: Session,
    ) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async move { self.0.attach(request, session).await.map_err(told) })
    }

    fn port_forward(
        &self,
        pod_id: String,
        port: u16,
    ) -> BoxFuture<'_, Result<Box<dyn Duplex>, BackendError>> {
        Box::pin(async move { self.0.port_forward(&pod_id, port).await.map_err(told) })
    }
}

/// Converts an error to the single line that the client prints.
fn told<F: Fault + 'static>(failure: Arc<F>) -> BackendError {
    chain(&*failure).into()
}

/// The reason why no URL is returned.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The request is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The limit of pending sessions is reached.
    #[error("{0}")]
    Full(#[from] TooManyPending),
}

fn invalid(field: &'static str, problem: impl Display) -> Refused {
    Invalid::new(field, problem.to_string()).into()
}

/// Validates an exec request.
pub fn check_exec(request: &ExecRequest) -> Result<(), Refused> {
    check_streams(request.tty, [request.stdin, request.stdout, request.stderr])?;
    if request.cmd.first().is_none_or(String::is_empty) {
        return Err(invalid("cmd", "is empty; specify a command"));
    }
    Ok(())
}

/// Validates an attach request.
pub fn check_attach(request: &AttachRequest) -> Result<(), Refused> {
    check_streams(request.tty, [request.stdin, request.stdout, request.stderr])
}

fn check_streams(tty: bool, [stdin, stdout, stderr]: [bool; 3]) -> Result<(), Refused> {
    if tty && stderr {
        let problem = "cannot be combined with tty; a terminal has only one output stream";
        return Err(invalid("stderr", problem));
    }
    if !(stdin || stdout || stderr) {
        let problem = "at least one of stdin, stdout and stderr is required";
        return Err(invalid("stdin, stdout, stderr", problem));
    }
    Ok(())
}

/// Returns the requested ports.
pub fn ports(request: &PortForwardRequest) -> Result<Vec<u16>, Refused> {
    let ports = request.port.iter().map(|port| {
        let valid = u16::try_from(*port).ok().filter(|port| *port > 0);
        valid.ok_or_else(|| {
            invalid(
                "port",
                format!("{port} is not a port; use a number from 1 to 65535"),
            )
        })
    });
    ports.collect()
}

/// Returns a short-lived, single-use URL for a command in this container.
pub fn exec(
    server: &Server,
    request: ExecRequest,
    container_id: String,
) -> Result<ExecResponse, Refused> {
    let url = server.exec_url(orlop_streaming::ExecRequest {
        container_id,
        cmd: request.cmd,
        tty: request.tty,
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr,
    })?;
    Ok(ExecResponse { url })
}

/// Returns a short-lived, single-use URL for the streams of this container. Whether it has a terminal is the
/// container's fact, not the client's.
pub fn attach(
    server: &Server,
    request: &AttachRequest,
    container_id: String,
    tty: bool,
) -> Result<AttachResponse, Refused> {
    let url = server.attach_url(orlop_streaming::AttachRequest {
        container_id,
        tty,
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr && !tty,
    })?;
    Ok(AttachResponse { url })
}

/// Returns a short-lived, single-use URL for ports of this pod.
pub fn port_forward(
    server: &Server,
    pod_id: String,
    ports: Vec<u16>,
) -> Result<PortForwardResponse, Refused> {
    let request = orlop_streaming::PortForwardRequest { pod_id, ports };
    let url = server.port_forward_url(request)?;
    Ok(PortForwardResponse { url })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_make_no_session_are_refused() {
        let request = |tty, stdout, stderr| AttachRequest {
            tty,
            stdout,
            stderr,
            ..AttachRequest::default()
        };
        let said = |request| check_attach(&request).unwrap_err().to_string();
        assert!(said(request(true, true, true)).starts_with("stderr: "));
        assert!(said(request(false, false, false)).contains("is required"));
        assert!(check_attach(&request(true, true, false)).is_ok());
        let command = |cmd: &[&str]| ExecRequest {
            cmd: cmd.iter().map(ToString::to_string).collect(),
            stdout: true,
            ..ExecRequest::default()
        };
        assert!(check_exec(&command(&["ls"])).is_ok());
        assert!(check_exec(&command(&[""])).is_err());
    }

    #[test]
    fn a_port_is_a_number_from_1_to_65535() {
        let asked = |port: &[i32]| {
            ports(&PortForwardRequest {
                port: port.to_vec(),
                ..PortForwardRequest::default()
            })
        };
        assert_eq!(asked(&[1, 65535]).unwrap(), [1, 65535]);
        for wrong in [0, -1, 65536] {
            assert!(asked(&[wrong]).is_err(), "{wrong}");
        }
    }
}
