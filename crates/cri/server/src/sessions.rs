//! Exec, attach and port-forward: what may be asked for, the URL that a client gets, and the server
//! behind it.

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

/// The listener for sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streaming {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Certificate and key files; without them the sessions are plain HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Clients must show a certificate of this authority.
    pub client_ca: Option<PathBuf>,
    /// How TLS is spoken.
    pub terms: TlsTerms,
    /// A session without a byte for this long ends.
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

    /// What a server that listens there is to go by, for its `change`; says why it cannot.
    pub fn prepare(&self, server: &Server) -> Result<Change, String> {
        let prepared = server.prepare(self.files(), self.terms.clone(), self.idle_timeout);
        prepared.map_err(|error| {
            format!(
                "cannot serve exec sessions with this configuration: {}",
                chain(&error)
            )
        })
    }

    /// Begins to serve; says why not.
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

/// What sessions lead to.
pub trait Host: Send + Sync + 'static {
    /// Why one ended badly.
    type Failure: Fault + 'static;

    /// Runs a command for a client.
    fn exec(
        &self,
        request: orlop_streaming::ExecRequest,
        client: Session,
    ) -> impl Future<Output = Result<ExitOutcome, Arc<Self::Failure>>> + Send;

    /// Joins a client to the streams of a container.
    fn attach(
        &self,
        request: orlop_streaming::AttachRequest,
        client: Session,
    ) -> impl Future<Output = Result<(), Arc<Self::Failure>>> + Send;

    /// A connection to a port of a pod.
    fn port_forward(
        &self,
        pod_id: &str,
        port: u16,
    ) -> impl Future<Output = Result<Box<dyn Duplex>, Arc<Self::Failure>>> + Send;
}

/// A host, as the server sees it.
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

/// An error as the client shows it: one line.
fn told<F: Fault + 'static>(failure: Arc<F>) -> BackendError {
    chain(&*failure).into()
}

/// Why there is no URL.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The request itself is wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// As many sessions as may be have been asked for and not begun.
    #[error("{0}")]
    Full(#[from] TooManyPending),
}

fn invalid(field: &'static str, problem: impl Display) -> Refused {
    Invalid::new(field, problem.to_string()).into()
}

/// Refuses a command that makes no session.
pub fn check_exec(request: &ExecRequest) -> Result<(), Refused> {
    check_streams(request.tty, [request.stdin, request.stdout, request.stderr])?;
    if request.cmd.first().is_none_or(String::is_empty) {
        return Err(invalid("cmd", "is empty; specify a command"));
    }
    Ok(())
}

/// Refuses streams that make no session.
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

/// The ports that are asked for.
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

/// A URL for a command in this container, once and soon.
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

/// A URL for the streams of this container, once and soon; whether it has a terminal it knows better
/// than the client.
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

/// A URL for ports of this pod, once and soon.
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
