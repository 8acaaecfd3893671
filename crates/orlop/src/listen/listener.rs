//! Listeners and connections, unix and TCP alike.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, bail};
use orlop_disk::{SocketFile, listen_at};
use rustix::net::{AddressFamily, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::sleep;

/// A socket that accepts connections.
#[derive(Debug)]
pub(crate) struct Listener {
    kind: Kind,
    address: String,
    _path: Option<SocketFile>,
}

#[derive(Debug)]
enum Kind {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Who may use a unix socket: its owner and its group.
const MODE: u32 = 0o660;

/// Out of descriptors, accepting fails at once and without end.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

impl Listener {
    /// Makes a unix socket at the path.
    pub(crate) fn unix(path: &Path, group: Option<u32>) -> anyhow::Result<Self> {
        let (listener, own) = listen_at(path, MODE, group)?;
        let listener = UnixListener::from_std(listener)?;
        let address = format!("unix://{}", path.display());
        Ok(Self {
            kind: Kind::Unix(listener),
            address,
            _path: Some(own),
        })
    }

    /// Listens on a TCP port.
    pub(crate) fn tcp(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = StdTcpListener::bind(address)
            .with_context(|| format!("cannot listen on tcp://{address}"))?;
        Self::from_tcp(listener)
    }

    /// Takes over a socket that listens already. Its file is the giver's.
    pub(crate) fn inherited(fd: OwnedFd) -> anyhow::Result<Self> {
        let cannot_use = "cannot use a socket passed by the service manager";
        if !sockopt::socket_acceptconn(&fd).context(cannot_use)? {
            bail!("{cannot_use}: it does not listen (the unit needs ListenStream= and Accept=no)");
        }
        match sockopt::socket_domain(&fd).context(cannot_use)? {
            AddressFamily::UNIX => {
                let listener = StdUnixListener::from(fd);
                listener.set_nonblocking(true)?;
                let address = listener
                    .local_addr()
                    .ok()
                    .and_then(|address| Some(address.as_pathname()?.display().to_string()))
                    .unwrap_or_default();
                let kind = Kind::Unix(UnixListener::from_std(listener)?);
                Ok(Self {
                    kind,
                    address: format!("unix://{address}"),
                    _path: None,
                })
            }
            AddressFamily::INET | AddressFamily::INET6 => Self::from_tcp(fd.into()),
            other => bail!("{cannot_use}: its address family {other:?} is neither unix nor IP"),
        }
    }

    fn from_tcp(listener: StdTcpListener) -> anyhow::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = format!("tcp://{}", listener.local_addr()?);
        Ok(Self {
            kind: Kind::Tcp(TcpListener::from_std(listener)?),
            address,
            _path: None,
        })
    }

    /// Where it listens, for the log.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Whether only processes of this machine with access to a file can connect.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.kind, Kind::Unix(_))
    }

    /// Whether it is open to this machine alone.
    pub(crate) fn is_local(&self) -> bool {
        match &self.kind {
            Kind::Unix(_) => true,
            Kind::Tcp(listener) => listener
                .local_addr()
                .is_ok_and(|address| address.ip().is_loopback()),
        }
    }

    /// The next connection. What fails is logged and tried again: there is no
    /// error that a daemon should die of.
    pub(crate) async fn accept(&self) -> Connection {
        let mut failed = false;
        loop {
            match self.try_accept().await {
                Ok(connection) => return connection,
                Err(error) => {
                    if !failed {
                        tracing::warn!(%error, address = self.address, "cannot accept a connection");
                    }
                    failed = true;
                    sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    async fn try_accept(&self) -> io::Result<Connection> {
        match &self.kind {
            Kind::Unix(listener) => listener
                .accept()
                .await
                .map(|(stream, _)| Connection::Unix(stream)),
            Kind::Tcp(listener) => listener
                .accept()
                .await
                .map(|(stream, _)| Connection::Tcp(stream)),
        }
    }
}

/// A connection accepted.
#[derive(Debug)]
pub(crate) enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Connection {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut dyn ReadWrite> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream),
            Self::Tcp(stream) => Pin::new(stream),
        }
    }
}

trait ReadWrite: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> ReadWrite for T {}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}
