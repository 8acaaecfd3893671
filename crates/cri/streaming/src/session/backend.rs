//! The interface between the streaming server and what runs the containers.

use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::resize::Resizes;
use crate::copying::Output;
use crate::flow::Input;

/// A boxed future, as trait objects need them.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a backend could not do what was asked; the client is told the whole chain.
pub type BackendError = Box<dyn std::error::Error + Send + Sync>;

/// A byte stream in both directions, for port-forwarding.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Runs what streaming clients ask for.
///
/// A returned error becomes the message that the client shows. When the client leaves early,
/// [`Session::gone`] is cancelled; the backend then ends what it started as it sees fit, and
/// returns. One that does not return within half a minute is dropped.
pub trait Backend: Send + Sync + 'static {
    /// Runs a command in a container and answers how it ended, all its output written.
    fn exec(
        &self,
        request: ExecRequest,
        session: Session,
    ) -> BoxFuture<'_, Result<ExitOutcome, BackendError>>;

    /// Connects the session to a container's own process, until that ends or the client leaves.
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

/// A command to be run in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecRequest {
    /// The container's identifier.
    pub container_id: String,
    /// The command and its arguments.
    pub cmd: Vec<String>,
    /// Whether the command gets a terminal. Its error output then comes with the normal one.
    pub tty: bool,
    /// Whether the client sends input.
    pub stdin: bool,
    /// Whether the client wants the output.
    pub stdout: bool,
    /// Whether the client wants the error output; never together with a terminal.
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
    /// Whether the client wants the output.
    pub stdout: bool,
    /// Whether the client wants the error output; never together with a terminal.
    pub stderr: bool,
}

/// Connections to ports of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortForwardRequest {
    /// The pod's identifier.
    pub pod_id: String,
    /// The ports for protocols in which the client can't name them itself (WebSocket channels).
    pub ports: Vec<u16>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitOutcome {
    /// With this exit code.
    Exited(i32),
    /// It was left or killed because the client had gone: there is nobody to be told.
    Abandoned,
}

/// The client's side of an exec or attach.
///
/// Streams that the client did not ask for are `None`. Dropping an output tells the client its
/// end; dropping the input lets what the client still sends fall away.
pub struct Session {
    /// What the client sends.
    pub stdin: Option<Input>,
    /// Where the output goes.
    pub stdout: Option<Output>,
    /// Where the error output goes.
    pub stderr: Option<Output>,
    /// The client's terminal size, if the session has a terminal.
    pub resizes: Option<Resizes>,
    /// Cancelled when the client has gone or the server shuts down.
    pub gone: CancellationToken,
}
