//! HTTP/1.1 on a connection.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::activity::{Activity, InProgress};

/// Limits for the head of a request: its first line and its headers.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// The time limit, from its start or the end of the previous request.
    pub time: Duration,
    /// The size limit.
    pub bytes: usize,
}

/// Serves the requests of a connection, until it ends or a request is upgraded. A request is in progress until its
/// response is written.
pub async fn serve_http1<S, F, R, B>(
    stream: S,
    head: HeadLimits,
    activity: Activity,
    answer: F,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Fn(Request<Incoming>) -> R,
    R: Future<Output = Response<B>>,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let service = service_fn(|request| {
        let in_progress = activity.request();
        let answer = answer(request);
        async {
            let answer = answer.await.map(|body| Answer {
                body,
                _in_progress: in_progress,
            });
            Ok::<_, Infallible>(answer)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head.time)
        .max_buf_size(head.bytes)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await
}

/// The body of a response, whose request is in progress until it is dropped.
struct Answer<B> {
    body: B,
    _in_progress: InProgress,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
