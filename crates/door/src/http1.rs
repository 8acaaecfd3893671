//! HTTP/1.1 on a connection.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

/// What the head of a request may take: its line and its headers.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// From its beginning, or the end of the request before it.
    pub time: Duration,
    /// How long it may be.
    pub bytes: usize,
}

/// Answers the requests of a connection, until it ends or one was answered with an upgrade.
pub async fn serve_http1<S, F, R, B>(stream: S, head: HeadLimits, answer: F) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Fn(Request<Incoming>) -> R,
    R: Future<Output = Response<B>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head.time)
        .max_buf_size(head.bytes)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await
}
