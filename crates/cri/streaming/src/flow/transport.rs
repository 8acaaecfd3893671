//! Byte streams below a protocol: a socket, TLS over it, or a tunnel.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::pulse::Pulse;

/// The reading half of a transport.
pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
/// The writing half of a transport.
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// A connected byte stream, split so that reading and writing need no common lock.
pub(crate) struct Transport {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) pulse: Pulse,
}

impl Transport {
    pub(crate) fn from_tcp(stream: TcpStream) -> Self {
        let pulse = Pulse::of(stream.as_fd());
        let (reader, writer) = stream.into_split();
        Self {
            reader: Box::new(reader),
            writer: Box::new(writer),
            pulse,
        }
    }

    pub(crate) fn from_io(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self {
            reader: Box::new(reader),
            writer: Box::new(writer),
            pulse: Pulse::none(),
        }
    }

    /// Sets the [`Pulse`] of the underlying socket.
    pub(crate) fn with_pulse(self, pulse: Pulse) -> Self {
        Self { pulse, ..self }
    }

    /// Puts bytes that were read too early back at the front.
    pub(crate) fn with_leftover(self, leftover: Bytes) -> Self {
        if leftover.is_empty() {
            return self;
        }
        let reader = Box::new(Prefixed {
            leftover,
            inner: self.reader,
        });
        Self { reader, ..self }
    }
}

struct Prefixed {
    leftover: Bytes,
    inner: Reader,
}

impl AsyncRead for Prefixed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.leftover.has_remaining() {
            let taken = self.leftover.remaining().min(buf.remaining());
            buf.put_slice(&self.leftover.split_to(taken));
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}
