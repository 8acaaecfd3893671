//! A small HTTP client, for pushing images and relaying requests.

use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A complete response.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// Sends one request over a new connection. The `Host` header is added if it is missing.
pub async fn send(to: SocketAddr, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
    let (parts, body) = open(to, request).await?.into_parts();
    let body = body.collect().await;
    Ok(Answer {
        status: parts.status,
        headers: parts.headers,
        body: body.with_context(|| format!("asking {to}"))?.to_bytes(),
    })
}

/// Sends one request, and returns the response before its body.
pub async fn open(
    to: SocketAddr,
    mut request: Request<Full<Bytes>>,
) -> anyhow::Result<Response<Incoming>> {
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
    // The connection needs its own task; it ends with the body or its reader.
    tokio::spawn(connection);
    let response = sender.send_request(request).await;
    response.with_context(|| format!("asking {to}"))
}
