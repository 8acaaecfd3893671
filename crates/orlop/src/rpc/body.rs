//! The answer's body: a message, or a stream of them.

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

use super::call::Call;
use super::layer::{Policy, panicked};

/// A body that notes how its call ends.
///
/// The first time it has to wait it proves to be a stream: it then counts as one,
/// and ends when the daemon closes.
pub(crate) struct CallBody {
    inner: Body,
    call: Option<Call>,
    policy: Arc<Policy>,
    stream: Option<Stream>,
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
        }
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
        let entered = this.call.as_ref().map(|call| call.span().clone().entered());
        let inner = &mut this.inner;
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(inner).poll_frame(context)));
        drop(entered);
        let Ok(polled) = polled else {
            return Poll::Ready(this.close(&panicked()));
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
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
