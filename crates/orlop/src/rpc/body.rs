//! The answer's body: a message, or a stream of them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;
use tonic::body::Body;

use super::answers::Share;
use super::call::Call;
use super::layer::{Policy, panicked};
use super::peer::Peer;

/// A body that notes how its call ends.
///
/// The first time it has to wait it proves to be a stream: it then counts as one,
/// and ends when the daemon closes.
pub(crate) struct CallBody {
    inner: Body,
    call: Option<Call>,
    policy: Arc<Policy>,
    stream: Option<Stream>,
    /// What the inner body has given already.
    ready: VecDeque<Result<Frame<Bytes>, Status>>,
    share: Option<Share>,
}

struct Stream {
    _room: OwnedSemaphorePermit,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Stream {
    fn new(room: OwnedSemaphorePermit, closing: &CancellationToken) -> Self {
        Self {
            _room: room,
            closing: Box::pin(closing.clone().cancelled_owned()),
        }
    }
}

impl CallBody {
    pub(super) fn new(inner: Body, call: Call, policy: Arc<Policy>) -> Self {
        Self {
            inner,
            call: Some(call),
            policy,
            stream: None,
            ready: VecDeque::new(),
            share: None,
        }
    }

    /// Finds out how much an answer takes that is one message, and whether there is room for it until its
    /// client reads it. A stream has bounds of its own.
    pub(super) async fn weigh(&mut self, peer: &Peer) {
        let is_whole = poll_fn(|context| Poll::Ready(self.is_one_message(context))).await;
        if !is_whole {
            return;
        }
        let frames = self.ready.iter().flatten();
        let bytes = frames.filter_map(Frame::data_ref).map(Bytes::len).sum();
        match self.policy.answers().wait(peer, bytes) {
            Ok(share) => self.share = Some(share),
            Err(status) => {
                let refusal = self.close(&status);
                self.ready = refusal.into_iter().collect();
            }
        }
    }

    /// Whether what comes is one message with its end, which then is here.
    fn is_one_message(&mut self, context: &mut Context<'_>) -> bool {
        for _ in 0..2 {
            match self.poll_inner(context) {
                Poll::Ready(Some(frame)) => {
                    let is_last = frame.as_ref().map_or(true, Frame::is_trailers);
                    self.ready.push_back(frame);
                    if is_last {
                        return true;
                    }
                }
                Poll::Ready(None) => return true,
                Poll::Pending => return false,
            }
        }
        false
    }

    fn poll_inner(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let entered = self.call.as_ref().map(|call| call.span().clone().entered());
        let inner = &mut self.inner;
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(inner).poll_frame(context)));
        drop(entered);
        polled.unwrap_or_else(|_| Poll::Ready(self.close(&panicked())))
    }

    /// The inner body has nothing yet.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let room = match self.policy.limits().open_stream() {
                    Ok(room) => room,
                    Err(status) => return Poll::Ready(Err(status)),
                };
                if let Some(call) = &mut self.call {
                    call.opened_stream();
                }
                none.insert(Stream::new(room, self.policy.closing()))
            }
        };
        stream.closing.as_mut().poll(context).map(|()| {
            Err(Status::unavailable(
                "the daemon is stopping: connect again to go on",
            ))
        })
    }

    fn note(&mut self, status: &Status) {
        if let Some(mut call) = self.call.take() {
            call.ended(status.code(), status.message());
        }
    }

    /// Ends the body with a status of our own.
    fn close(&mut self, status: &Status) -> Option<Result<Frame<Bytes>, Status>> {
        self.inner = Body::empty();
        self.note(status);
        let mut trailers = HeaderMap::new();
        Some(
            status
                .add_header(&mut trailers)
                .map(|()| Frame::trailers(trailers)),
        )
    }
}

impl HttpBody for CallBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let polled = match this.ready.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => this.poll_inner(context),
        };
        match &polled {
            Poll::Pending => match this.wait(context) {
                Poll::Ready(Err(status)) => return Poll::Ready(this.close(&status)),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            },
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
                    this.note(&status);
                }
            }
            Poll::Ready(Some(Err(status))) => this.note(status),
            Poll::Ready(None) => drop(this.call.take()),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.ready.is_empty() {
            self.inner.size_hint()
        } else {
            SizeHint::default()
        }
    }
}
