//! An incoming byte stream from the peer.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use super::inbox::{End, IDLE_CAPACITY, Inbox};

/// Allows the peer to send this many more bytes.
pub(crate) type Credit = Box<dyn FnMut(usize) + Send + Sync>;

/// A byte stream from the peer, an [`AsyncRead`]. If the peer vanished or reset the stream, reads return an error,
/// never an end of file.
///
/// If it is dropped, the rest of the stream is discarded and other streams are not blocked.
pub struct Input {
    inbox: Arc<Inbox>,
    held: VecDeque<u8>,
    credit: Option<Credit>,
}

impl Input {
    pub(crate) fn new(inbox: Arc<Inbox>, credit: Option<Credit>) -> Self {
        Self {
            inbox,
            held: VecDeque::new(),
            credit,
        }
    }

    /// Returns the available data, waiting for at least one byte. It has two parts because the ring may wrap; both are
    /// empty at the end.
    pub(crate) async fn fill(&mut self) -> io::Result<(&[u8], &[u8])> {
        std::future::poll_fn(|cx| self.poll_fill(cx)).await?;
        Ok(self.held.as_slices())
    }

    /// Drops the first `bytes` of the data from [`Input::fill`].
    pub(crate) fn consumed(&mut self, bytes: usize) {
        if bytes >= self.held.len() {
            // Unlike a drain, this resets the ring's start, so that it stays in one part.
            self.held.clear();
        } else {
            self.held.drain(..bytes);
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.held.is_empty() {
            return Poll::Ready(Ok(()));
        }
        match self.inbox.poll_take(cx, &mut self.held) {
            Poll::Ready(Ok(arrived)) => {
                if let Some(credit) = &mut self.credit {
                    credit(arrived);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(End::Eof)) => Poll::Ready(Ok(())),
            Poll::Ready(Err(End::Lost)) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::ConnectionReset,
                "the peer disconnected before the end of the stream",
            ))),
            Poll::Pending => {
                if self.held.capacity() > IDLE_CAPACITY {
                    self.held = VecDeque::new();
                }
                Poll::Pending
            }
        }
    }
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_fill(cx))?;
        let (first, _) = this.held.as_slices();
        let taken = first.len().min(buf.remaining());
        buf.put_slice(&first[..taken]);
        this.consumed(taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for Input {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        ready!(this.poll_fill(cx))?;
        Poll::Ready(Ok(this.held.as_slices().0))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.get_mut().consumed(amount);
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        let dropped = self.inbox.discard();
        if let Some(credit) = &mut self.credit {
            credit(dropped);
        }
    }
}
