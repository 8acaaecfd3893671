//! The bytes a peer sends on one stream, for the one who consumes them.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use super::inbox::{End, IDLE_CAPACITY, Inbox};

/// Tells the peer that it may send so many bytes more.
pub(crate) type Credit = Box<dyn FnMut(usize) + Send + Sync>;

/// A stream of bytes from the peer. Reads like any [`AsyncRead`]; a peer that vanished or reset
/// the stream is an error, never an end of file.
///
/// Dropping it lets the rest of the stream fall away without holding up other streams.
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

    /// What is there to read right now, waiting for at least one byte. Two parts, as the ring may
    /// wrap; both empty at the end.
    pub(crate) async fn fill(&mut self) -> io::Result<(&[u8], &[u8])> {
        std::future::poll_fn(|cx| self.poll_fill(cx)).await?;
        Ok(self.held.as_slices())
    }

    /// Drops the first `bytes` of what [`Input::fill`] gave.
    pub(crate) fn consumed(&mut self, bytes: usize) {
        if bytes >= self.held.len() {
            // Unlike a drain, this moves the ring's start back to zero, so it stays in one part.
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
