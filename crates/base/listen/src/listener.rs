//! Listeners and connections, for unix and TCP.

use std::io::{Error, Result};
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::net::{AddressFamily, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use crate::accept::Accept;
use crate::connections::Origin;
use crate::socket::{BACKLOG, SocketFile, because, listen_at};

/// A socket that accepts connections.
#[derive(Debug)]
pub struct Listener {
    kind: Kind,
    _path: Option<SocketFile>,
}

#[derive(Debug)]
enum Kind {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Creates a unix socket at the path: see [`listen_at`].
    pub fn unix(path: &Path, mode: u32, group: Option<u32>) -> Result<Self> {
        let (listener, own) = listen_at(path, mode, group)?;
        Ok(Self {
            kind: Kind::Unix(UnixListener::from_std(listener)?),
            _path: Some(own),
        })
    }

    /// Listens on a TCP port.
    pub fn tcp(address: SocketAddr) -> Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self {
            kind: Kind::Tcp(socket.listen(BACKLOG as u32)?),
            _path: None,
        })
    }

    /// Takes over a listening socket. The process that passed it owns its file.
    pub fn inherited(fd: OwnedFd) -> Result<Self> {
        const CANNOT_USE: &str = "cannot use a socket passed by the service manager";
        let failed = |errno: rustix::io::Errno| because(&errno.into(), CANNOT_USE);
        let wrong = |why: String| Err(Error::other(format!("{CANNOT_USE}: {why}")));
        if !sockopt::socket_acceptconn(&fd).map_err(failed)? {
            let why =
                "it is not a listening socket; set ListenStream= and Accept=no in the socket unit";
            return wrong(why.to_owned());
        }
        let kind = match sockopt::socket_domain(&fd).map_err(failed)? {
            AddressFamily::UNIX => {
                let listener = StdUnixListener::from(fd);
                listener.set_nonblocking(true)?;
                Kind::Unix(UnixListener::from_std(listener)?)
            }
            AddressFamily::INET | AddressFamily::INET6 => {
                let listener = StdTcpListener::from(fd);
                listener.set_nonblocking(true)?;
                Kind::Tcp(TcpListener::from_std(listener)?)
            }
            other => {
                return wrong(format!("its address family is {other:?}, not unix or IP"));
            }
        };
        Ok(Self { kind, _path: None })
    }

    /// Returns the address, for the log.
    pub fn address(&self) -> String {
        match &self.kind {
            Kind::Unix(listener) => listener.address(),
            Kind::Tcp(listener) => listener.address(),
        }
    }

    /// Returns the TCP address, if it listens on TCP.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.kind {
            Kind::Unix(_) => None,
            Kind::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    /// Returns whether this is a Unix socket, so that only local processes with access to its file can connect.
    pub fn is_unix(&self) -> bool {
        matches!(self.kind, Kind::Unix(_))
    }

    /// Returns whether only this machine can connect.
    pub fn is_local(&self) -> bool {
        let loopback = |address: SocketAddr| address.ip().is_loopback();
        self.is_unix() || self.tcp_address().is_some_and(loopback)
    }
}

impl Accept for Listener {
    type Connection = Connection;

    async fn try_accept(&self) -> Result<Connection> {
        match &self.kind {
            Kind::Unix(listener) => listener.try_accept().await.map(Connection::Unix),
            Kind::Tcp(listener) => {
                let (stream, _) = listener.try_accept().await?;
                Ok(Connection::Tcp(stream))
            }
        }
    }

    fn address(&self) -> String {
        Self::address(self)
    }

    fn origin(connection: &Connection) -> Origin {
        match connection {
            Connection::Unix(stream) => UnixListener::origin(stream),
            Connection::Tcp(stream) => match stream.peer_addr() {
                Ok(peer) => Origin::of_address(peer.ip()),
                Err(_) => Origin::Unknown,
            },
        }
    }
}

/// An accepted connection.
#[derive(Debug)]
pub enum Connection {
    /// A connection to a unix socket.
    Unix(UnixStream),
    /// A TCP connection.
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
    ) -> Poll<Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[std::io::IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.stream().poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.stream().poll_shutdown(context)
    }
}
