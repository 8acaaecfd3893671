//! Responses with server-sent events (HTML, 9.2).

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use crate::answer::Body;

/// Interval of keep-alive messages, so that a client that has left is noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// Formats an event. The data is JSON without line breaks.
pub(crate) fn event(kind: &str, data: &str) -> Bytes {
    let mut text = String::new();
    write_event(&mut text, kind, data);
    text.into()
}

/// Appends an event to a message.
pub(crate) fn write_event(text: &mut String, kind: &str, data: &str) {
    let _ = write!(text, "event: {kind}\ndata: {data}\n\n");
}

/// Creates a body of events that ends when the sender is dropped. `held` is dropped with the body.
pub(crate) fn body(events: Receiver<Bytes>, held: impl Send + 'static) -> Body {
    let frames = stream::unfold((events, held), async |(mut events, held)| {
        let bytes = match timeout(SIGN_OF_LIFE, events.recv()).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b": alive\n\n"),
        };
        Some((Ok::<_, Infallible>(Frame::data(bytes)), (events, held)))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Creates an empty body for HEAD requests.
pub(crate) fn none() -> Body {
    http_body_util::Empty::new().boxed_unsync()
}
