//! As much of an HTTP client as pushing an image and relaying a request take.

use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A whole answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// Sends one request over a connection of its own. The `Host` header is added where missing.
pub async fn send(to: SocketAddr, mut request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
    let stream = TcpStream::connect(to)
        .await
        .with_context(|| format!("connecting to {to}"))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .with_context(|| format!("speaking HTTP to {to}"))?;
    request
        .headers_mut()
        .entry(hyper::header::HOST)
        .or_insert_with(|| {
            to.to_string()
                .parse()
                .expect("an address is a header value")
        });
    let exchange = async {
        let response = sender.send_request(request).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok::<_, hyper::Error>(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    };
    // The connection has to be driven beside the exchange; it ends with it.
    let driver = tokio::spawn(connection);
    let answer = exchange.await.with_context(|| format!("asking {to}"));
    driver.abort();
    answer
}
