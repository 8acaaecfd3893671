//! The interface between the streaming server and the container backend.

use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::resize::Resizes;
use crate::copying::Output;
use crate::flow::Input;

/// A boxed future, for trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An error of a backend; the client receives the whole error chain.
pub type BackendError = Box<dyn std::error::Error + Send + Sync>;

/// A bidirectional byte stream, for port-forwarding.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Runs the requests of streaming clients.
///
/// A returned error becomes the message that the client shows. If the client disconnects early, [`Session::gone`] is
/// cancelled; the backend then cleans up and returns. A backend that does not return within half a minute is dropped.
pub trait Backend: Send + Sync + 'static {
    /// Runs a command in a container and returns its exit after all output is written.
    fn exec(
        &self,
        request: ExecRequest,
        session: Session,
    ) -> BoxFuture<'_, Result<ExitOutcome, BackendError>>;

    /// Connects the session to a container's own process until the process ends or the client disconnects.
    fn attach(
        &self,
        request: AttachRequest,
        session: Session,
    ) -> BoxFuture<'_, Result<(), BackendError>>;

    /// Connects to a port on the loopback interface of a pod.
    fn port_forward(
        &self,
        pod_id: String,
        port: u16,
    ) -> BoxFuture<'_, Result<Box<dyn Duplex>, BackendError>>;
}

/// A command to run in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecRequest {
    /// The container's identifier.
    pub container_id: String,
    /// The command and its arguments.
    pub cmd: Vec<String>,
    /// Whether the command gets a terminal. Its error output is then part of the normal output.
    pub tty: bool,
    /// Whether the client sends input.
    pub stdin: bool,
    /// Whether the client reads the output.
    pub stdout: bool,
    /// Whether the client reads the error output; never with a terminal.
    pub stderr: bool,
}

/// A connection to a container's own process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachRequest {
    /// The container's identifier.
    pub container_id: String,
    /// Whether the process has a terminal.
    pub tty: bool,
    /// Whether the client sends input.
    pub stdin: bool,
    /// Whether the client reads the output.
    pub stdout: bool,
    /// Whether the client reads the error output; never with a terminal.
    pub stderr: bool,
}

/// Connections to ports of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortForwardRequest {
    /// The pod's identifier.
    pub pod_id: String,
    /// The ports, for protocols in which the client cannot name them itself (WebSocket channels).
    pub ports: Vec<u16>,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitOutcome {
    /// The command exited with this code.
    Exited(i32),
    /// The command was left running or killed because the client disconnected; no result is sent.
    Abandoned,
}

/// The client's side of an exec or attach session.
///
/// Streams that the client did not request are `None`. Dropping an output ends the stream for the client; dropping the
/// input discards further input.
pub struct Session {
    /// The client's input.
    pub stdin: Option<Input>,
    /// The output to the client.
    pub stdout: Option<Output>,
    /// The error output to the client.
    pub stderr: Option<Output>,
    /// The client's terminal size, if the session has a terminal.
    pub resizes: Option<Resizes>,
    /// Cancelled when the client disconnects or the server shuts down.
    pub gone: CancellationToken,
}
