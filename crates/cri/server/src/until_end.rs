//! Connections that end with their pod.
#![allow(
    unsafe_code,
    reason = "a process's descriptor belongs to its registration"
)]

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// How long data may still be read after the pod's end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A stream that breaks after its pod has ended. A port of a host-network pod belongs to the node; without this, it
/// would stay forwarded to the pod's client.
pub struct UntilEnd<S, E> {
    stream: S,
    end: End<E>,
}

enum End<E> {
    /// The pod still runs; the future completes at its end.
    ToCome(E),
    /// The pod ended at this time.
    Was(Instant),
}

impl<S, E: Future<Output = ()> + Unpin> UntilEnd<S, E> {
    /// Creates a stream that ends when `end` completes.
    pub fn new(stream: S, end: E) -> Self {
        let end = End::ToCome(end);
        Self { stream, end }
    }

    /// Returns when the pod ended; otherwise registers the task to be woken at its end.
    fn over(&mut self, cx: &mut Context<'_>) -> Option<Instant> {
        let at = match &mut self.end {
            End::Was(at) => *at,
            End::ToCome(end) => {
                if Pin::new(end).poll(cx).is_pending() {
                    return None;
                }
                Instant::now()
            }
        };
        self.end = End::Was(at);
        Some(at)
    }
}

/// Waits for the end of a process by its pidfd; waits forever if the pidfd cannot be polled.
pub async fn end_of(process: OwnedFd) {
    // SAFETY: an `OwnedFd` has the same open descriptor from its making to its drop.
    let registered = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) };
    match registered {
        Ok(process) => drop(process.readable().await),
        Err(_) => std::future::pending().await,
    }
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the pod has ended")
}

impl<S: AsyncRead + Unpin, E: Future<Output = ()> + Unpin> AsyncRead for UntilEnd<S, E> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let over = this.over(cx);
        if over.is_some_and(|at| at.elapsed() > LAST_WORDS) {
            return Poll::Ready(Err(ended()));
        }
        match Pin::new(&mut this.stream).poll_read(cx, buf) {
            Poll::Pending if over.is_some() => Poll::Ready(Err(ended())),
            read => read,
        }
    }
}

impl<S: AsyncWrite + Unpin, E: Future<Output = ()> + Unpin> AsyncWrite for UntilEnd<S, E> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.over(cx).is_some() {
            return Poll::Ready(Err(ended()));
        }
        Pin::new(&mut this.stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_ends_with_its_pod_but_what_was_said_is_heard() {
        let (mut server, stream) = tokio::io::duplex(64);
        let (end, ended) = oneshot::channel::<()>();
        let ended = Box::pin(async move { drop(ended.await) });
        let mut stream = UntilEnd::new(stream, ended);
        stream.write_all(b"hello").await.unwrap();
        server.write_all(b"bye").await.unwrap();
        end.send(()).unwrap();
        let mut said = [0; 3];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"bye");
        let read = stream.read(&mut said).await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        let written = stream.write(b"again").await;
        assert!(written.is_err(), "it goes on");
    }

    #[tokio::test]
    async fn who_waits_for_more_hears_of_the_end() {
        let (_server, stream) = tokio::io::duplex(64);
        let (end, ended) = oneshot::channel::<()>();
        let ended = Box::pin(async move { drop(ended.await) });
        let mut stream = UntilEnd::new(stream, ended);
        let waiting = tokio::spawn(async move { stream.read_u8().await });
        tokio::task::yield_now().await;
        end.send(()).unwrap();
        let read = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        assert!(read.expect("it waits").unwrap().is_err());
    }
}
