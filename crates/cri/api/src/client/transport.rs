//! Connecting and reconnecting: at once the first time, then with pauses that grow from 100 ms to 3 s. Calls during a
//! pause fail at once with the last error.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};
use tonic::transport::{Channel, Endpoint as Target};
use tower::Service;

use crate::Endpoint;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Initial window size, so that large responses need not wait for window updates.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// A failed connection attempt.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot connect to {endpoint}: {problem}")]
pub struct ConnectError {
    endpoint: Endpoint,
    problem: String,
    kind: io::ErrorKind,
}

impl ConnectError {
    /// Returns the kind of the system's error.
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }
}

pub(super) fn channel(endpoint: &Endpoint) -> Channel {
    // The address is only for the `:authority` of requests; the connector knows the endpoint.
    Target::from_static("http://localhost")
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .connect_with_connector_lazy(Connector {
            endpoint: endpoint.clone(),
            state: Arc::new(Mutex::new(None)),
        })
}

#[derive(Clone)]
struct Connector {
    endpoint: Endpoint,
    state: Arc<Mutex<Option<Failing>>>,
}

/// The state after a failed connection attempt.
struct Failing {
    error: ConnectError,
    pause: Duration,
    until: Instant,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Wire>>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            if let Some(error) = connector.pausing() {
                return Err(error);
            }
            let result = match timeout(CONNECT_TIMEOUT, open(&connector.endpoint)).await {
                Ok(result) => result,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            };
            match result {
                Ok(wire) => {
                    connector.set(None);
                    Ok(TokioIo::new(wire))
                }
                Err(error) => Err(connector.failed(&error)),
            }
        })
    }
}

impl Connector {
    fn pausing(&self) -> Option<ConnectError> {
        let state = self.state.lock();
        let failing = state.as_ref()?;
        (Instant::now() < failing.until).then(|| failing.error.clone())
    }

    fn failed(&self, error: &io::Error) -> ConnectError {
        let error = ConnectError {
            problem: problem(&self.endpoint, error),
            endpoint: self.endpoint.clone(),
            kind: error.kind(),
        };
        let mut state = self.state.lock();
        let pause = state.as_ref().map_or(FIRST_PAUSE, |failing| {
            (failing.pause * 2).min(LONGEST_PAUSE)
        });
        *state = Some(Failing {
            error: error.clone(),
            pause,
            until: Instant::now() + pause,
        });
        error
    }

    fn set(&self, state: Option<Failing>) {
        *self.state.lock() = state;
    }
}

async fn open(endpoint: &Endpoint) -> io::Result<Box<dyn Wire>> {
    Ok(match endpoint {
        Endpoint::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
    })
}

fn problem(endpoint: &Endpoint, error: &io::Error) -> String {
    match (endpoint, error.kind()) {
        (Endpoint::Unix(path), io::ErrorKind::NotFound) => {
            let place = path.parent().map(PathBuf::from).unwrap_or_default();
            format!(
                "the socket does not exist in {}; check that the runtime is running",
                place.display()
            )
        }
        (Endpoint::Unix(_), io::ErrorKind::PermissionDenied) => {
            "permission denied; run as root or as a member of the socket's group".to_owned()
        }
        (_, io::ErrorKind::ConnectionRefused) => {
            "connection refused; check that the runtime is running".to_owned()
        }
        (_, io::ErrorKind::TimedOut) => {
            format!("no answer within {} s", CONNECT_TIMEOUT.as_secs())
        }
        _ => error.to_string(),
    }
}

/// A byte stream that carries the connection.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}
