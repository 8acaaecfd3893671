//! The body of a response: one message, or a stream of messages.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use orlop_listen::InProgress;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;
use tonic::body::Body;

use super::answers::{SMALL, Share};
use super::call::Call;
use super::layer::{Policy, panicked};
use super::peer::Peer;

/// A response body that records how its call ends.
///
/// If it is not complete at the first poll it is a stream: it then counts as one, and ends when the daemon stops.
pub(crate) struct CallBody {
    inner: Body,
    call: Option<Call>,
    policy: Arc<Policy>,
    stream: Option<Stream>,
    /// Frames that were already polled from the inner body.
    ready: VecDeque<Result<Frame<Bytes>, Status>>,
    /// The peer that receives the messages of a stream.
    listener: Option<Peer>,
}

/// The bytes of a response, with guards that live until they are written. The server takes a message as soon as it can
/// write one byte of it, and drops the body then.
struct Kept {
    bytes: Bytes,
    _share: Share,
    _calling: Option<InProgress>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn kept(bytes: Bytes, share: Share, calling: Option<InProgress>) -> Frame<Bytes> {
    Frame::data(Bytes::from_owner(Kept {
        bytes,
        _share: share,
        _calling: calling,
    }))
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
            listener: None,
        }
    }

    /// Reserves memory for a response of one message until the client reads it. Streams have their own limits.
    pub(super) async fn weigh(&mut self, peer: &Peer) {
        let is_whole = poll_fn(|context| Poll::Ready(self.is_one_message(context))).await;
        let weighed = if is_whole {
            self.keep(peer)
        } else {
            self.listener = Some(peer.clone());
            self.be_stream()
        };
        if let Err(status) = weighed {
            let refusal = self.close(&status);
            self.ready = refusal.into_iter().collect();
        }
    }

    /// Reserves memory for a complete response.
    fn keep(&mut self, peer: &Peer) -> Result<(), Status> {
        let mut frames = self.ready.iter_mut().flatten();
        let Some(frame) = frames.find(|frame| frame.is_data()) else {
            // An error without a message takes only a few bytes.
            return Ok(());
        };
        let bytes = frame.data_ref().cloned().unwrap_or_default();
        let share = self.policy.answers().wait(peer, bytes.len())?;
        let calling = self.call.as_mut().and_then(Call::take_calling);
        *frame = kept(bytes, share, calling.map(InProgress::answered));
        Ok(())
    }

    /// Polls the inner body and returns whether it is one message that is already complete.
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

    /// Handles a pending inner body.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.be_stream()?;
        if let Some(call) = &mut self.call {
            call.opened_stream();
        }
        let Some(stream) = &mut self.stream else {
            return Poll::Pending;
        };
        stream.closing.as_mut().poll(context).map(|()| {
            Err(Status::unavailable(
                "the daemon is stopping; reconnect to continue",
            ))
        })
    }

    /// Takes a stream permit, once.
    fn be_stream(&mut self) -> Result<(), Status> {
        if self.stream.is_none() {
            let room = self.policy.limits().open_stream()?;
            self.stream = Some(Stream::new(room, self.policy.closing()));
        }
        Ok(())
    }

    /// Counts a large message of a stream until it is read.
    fn counted(&self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match (&self.listener, frame.into_data()) {
            (Some(peer), Ok(bytes)) if bytes.len() > SMALL => {
                let share = self.policy.answers().count(peer, bytes.len());
                kept(bytes, share, None)
            }
            (_, Ok(bytes)) => Frame::data(bytes),
            (_, Err(frame)) => frame,
        }
    }

    fn note(&mut self, status: &Status) {
        if let Some(mut call) = self.call.take() {
            call.ended(status.code(), status.message());
        }
    }

    /// Ends the body with a status of the daemon.
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
        polled.map_ok(|frame| this.counted(frame))
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
