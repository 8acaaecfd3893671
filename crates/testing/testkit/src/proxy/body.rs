//! Response bodies that are slow, truncated or missing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming, SizeHint};

use super::bandwidth::Line;

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

const CHUNK: usize = 16 << 10;

/// A step in the transfer of a body to the client.
enum Step {
    Send(Bytes),
    Wait(Duration),
    Break,
}

/// Passes on a body from the registry.
pub(super) fn passed(body: Incoming) -> Body {
    body.map_err(io::Error::other).boxed_unsync()
}

pub(super) fn whole(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Attaches a value to a body, which is dropped with it.
pub(super) fn kept(body: Body, kept: impl Send + Unpin + 'static) -> Body {
    Kept { body, _kept: kept }.boxed_unsync()
}

/// Sends a body over the shared line, and counts the bytes sent.
pub(super) fn sent(body: Body, line: Arc<Line>, gone: Arc<AtomicU64>) -> Body {
    let frames = stream::unfold((body, Bytes::new()), move |(mut body, mut waiting)| {
        let (line, gone) = (Arc::clone(&line), Arc::clone(&gone));
        async move {
            while waiting.is_empty() {
                match body.frame().await? {
                    Ok(frame) => waiting = frame.into_data().unwrap_or_default(),
                    Err(error) => return Some((Err(error), (body, waiting))),
                }
            }
            let portion = waiting.split_to(line.portion().min(waiting.len()));
            line.send(portion.len()).await;
            gone.fetch_add(portion.len() as u64, Ordering::SeqCst);
            Some((Ok(Frame::data(portion)), (body, waiting)))
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

struct Kept<T> {
    body: Body,
    _kept: T,
}

impl<T: Unpin> hyper::body::Body for Kept<T> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns endless blanks, which JSON parsers accept as whitespace.
pub(super) fn endless() -> Body {
    let blanks = Bytes::from(vec![b' '; CHUNK]);
    StreamBody::new(stream::repeat_with(move || Ok(Frame::data(blanks.clone())))).boxed_unsync()
}

pub(super) fn truncated(bytes: Bytes, after: usize) -> Body {
    let head = bytes.slice(..after.min(bytes.len()));
    // The pause lets the bytes leave before the connection is closed.
    body_of(vec![
        Step::Send(head),
        Step::Wait(Duration::from_millis(20)),
        Step::Break,
    ])
}

pub(super) fn stalled(bytes: Bytes, after: usize, hold: Duration) -> Body {
    let after = after.min(bytes.len());
    let (head, tail) = (bytes.slice(..after), bytes.slice(after..));
    body_of(vec![Step::Send(head), Step::Wait(hold), Step::Send(tail)])
}

pub(super) fn slow(bytes: Bytes, bytes_per_second: usize) -> Body {
    // Ten steps per second, so that the rate is even for an observer.
    let portion = (bytes_per_second / 10).clamp(1, CHUNK * 64);
    let steps = (0..bytes.len()).step_by(portion).flat_map(|start| {
        let end = (start + portion).min(bytes.len());
        [
            Step::Wait(Duration::from_millis(100)),
            Step::Send(bytes.slice(start..end)),
        ]
    });
    body_of(steps.collect())
}

fn body_of(steps: Vec<Step>) -> Body {
    let frames = stream::iter(steps).filter_map(|step| async {
        match step {
            Step::Send(bytes) if bytes.is_empty() => None,
            Step::Send(bytes) => Some(Ok(Frame::data(bytes))),
            Step::Wait(time) => {
                tokio::time::sleep(time).await;
                None
            }
            Step::Break => Some(Err(io::Error::other("told to break off here"))),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}
