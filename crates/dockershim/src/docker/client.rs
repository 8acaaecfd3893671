//! HTTP client of the engine's unix socket: one connection per request.
//!
//! A connection to a unix socket costs about ten microseconds. Without keep-alive, no connection is stale after the
//! engine restarts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::error::{DockerError, Result};
use super::operations::{Ended, Operations};
use super::reply::Reply;
use super::types::VersionInfo;
use super::version::ApiVersion;

/// A client of the Docker Engine at one socket.
#[derive(Debug)]
pub(crate) struct Docker {
    endpoint: PathBuf,
    limit: Duration,
    version: Mutex<Option<ApiVersion>>,
    operations: Operations,
}

/// Timeout for connecting to the engine.
const CONNECT: Duration = Duration::from_secs(5);

impl Docker {
    /// Creates a client; does not connect yet.
    pub(crate) fn new(endpoint: PathBuf, limit: Duration) -> Self {
        Self {
            endpoint,
            limit,
            version: Mutex::new(None),
            operations: Operations::default(),
        }
    }

    /// Returns the metrics of the calls to the engine.
    pub(crate) fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Returns the path of the engine's socket.
    pub(crate) fn endpoint(&self) -> &Path {
        &self.endpoint
    }

    /// Returns the timeout of a call.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns the API version used with the engine, negotiated at the first call.
    pub(crate) async fn api(&self) -> Result<ApiVersion> {
        if let Some(version) = *self.version() {
            return Ok(version);
        }
        let info = self.version_info(CONNECT).await?;
        self.agree(&info)
    }

    /// Negotiates the API version with the engine. It may be another engine than before.
    pub(super) fn agree(&self, info: &VersionInfo) -> Result<ApiVersion> {
        let oldest = match info.min_api_version.as_str() {
            "" => None,
            text => Some(text.parse()?),
        };
        let agreed = ApiVersion::agreed(oldest, info.api_version.parse()?)?;
        *self.version() = Some(agreed);
        Ok(agreed)
    }

    fn version(&self) -> parking_lot::MutexGuard<'_, Option<ApiVersion>> {
        self.version.lock()
    }

    /// Sends a call without a body and parses the JSON response.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.within(&Method::GET, path, self.limit, async {
            self.send(Method::GET, path, None, &[]).await?.json().await
        })
        .await
    }

    /// Sends a call and only checks that the response is a success.
    pub(super) async fn act(
        &self,
        method: Method,
        path: &str,
        body: Option<&(dyn ErasedBody + Sync)>,
        limit: Duration,
    ) -> Result<()> {
        self.within(&method.clone(), path, limit, async {
            let body = body.map(ErasedBody::bytes).transpose()?;
            self.send(method, path, body, &[]).await?.drain().await
        })
        .await
    }

    /// Sends a call with a JSON body and parses the JSON response.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T> {
        self.within(&Method::POST, path, self.limit, async {
            let body = body.bytes()?;
            let reply = self.send(Method::POST, path, Some(body), &[]).await?;
            reply.json().await
        })
        .await
    }

    /// Sends a call with a streaming response. The timeout covers only the response's start.
    pub(super) async fn stream(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Bytes)>,
        headers: &[(HeaderName, String)],
    ) -> Result<Reply> {
        self.within(
            &method.clone(),
            path,
            self.limit,
            self.send_typed(method, path, body, headers),
        )
        .await
    }

    /// Runs a call with a timeout and counts it in the metrics.
    pub(super) async fn within<T>(
        &self,
        method: &Method,
        path: &str,
        limit: Duration,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let measured = self.operations.begin(method, path);
        let done = timeout(limit, work).await;
        measured.end(match &done {
            Ok(Ok(_)) => Ended::Well,
            Ok(Err(_)) => Ended::Badly,
            Err(_) => Ended::Late,
        });
        done.unwrap_or_else(|_| {
            Err(DockerError::Timeout {
                doing: shown(path),
                after: limit,
            })
        })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        headers: &[(HeaderName, String)],
    ) -> Result<Reply> {
        let body = body.map(|body| ("application/json", body));
        self.send_typed(method, path, body, headers).await
    }

    async fn send_typed(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Bytes)>,
        headers: &[(HeaderName, String)],
    ) -> Result<Reply> {
        let version = self.api().await?;
        let path = format!("/v{version}{path}");
        let (response, connection) = self.exchange(method, &path, body, headers).await?;
        Reply::new(response, connection, shown(&path))
            .accepted()
            .await
    }

    /// Sends a call without an API version in its path, which any engine can answer.
    pub(super) async fn send_unversioned<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let (response, connection) = self.exchange(Method::GET, path, None, &[]).await?;
        let reply = Reply::new(response, connection, shown(path));
        reply.accepted().await?.json().await
    }

    pub(super) async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Bytes)>,
        headers: &[(HeaderName, String)],
    ) -> Result<(Response<Incoming>, AbortOnDropHandle<()>)> {
        let stream = self.connect().await?;
        let broken = |source: hyper::Error| DockerError::Broken {
            doing: shown(path),
            source: source.into(),
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let connection = AbortOnDropHandle::new(tokio::spawn(async move {
            // The task that waits for the response reports the error.
            let _ = connection.with_upgrades().await;
        }));
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::HOST, "docker");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let bytes = match body {
            Some((kind, bytes)) => {
                request = request.header(http::header::CONTENT_TYPE, kind);
                bytes
            }
            None => Bytes::new(),
        };
        let request = request
            .body(Full::new(bytes))
            .map_err(|error| DockerError::Unreadable {
                doing: shown(path),
                problem: format!("cannot build the request: {error}"),
            })?;
        let response = sender.send_request(request).await.map_err(broken)?;
        Ok((response, connection))
    }

    async fn connect(&self) -> Result<UnixStream> {
        let unreachable = |source| {
            // The next engine on the socket may have another version.
            *self.version() = None;
            DockerError::Unreachable {
                endpoint: self.endpoint.clone(),
                source,
            }
        };
        match timeout(CONNECT, UnixStream::connect(&self.endpoint)).await {
            Ok(connected) => connected.map_err(unreachable),
            Err(_) => Err(unreachable(std::io::ErrorKind::TimedOut.into())),
        }
    }
}

/// Returns a path without its query, which may be long and is not needed in messages.
fn shown(path: &str) -> String {
    path.split('?').next().unwrap_or_default().to_owned()
}

/// A JSON request body.
pub(super) trait ErasedBody {
    fn bytes(&self) -> Result<Bytes>;
}

impl<T: Serialize> ErasedBody for T {
    fn bytes(&self) -> Result<Bytes> {
        let bytes = serde_json::to_vec(self).map_err(|error| DockerError::Unreadable {
            doing: "encoding the body of a request".to_owned(),
            problem: error.to_string(),
        })?;
        Ok(bytes.into())
    }
}

/// All characters except those that RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Percent-encodes a query parameter.
pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Formats filters for the engine's query.
pub(super) fn filters(filters: &[(&str, &[String])]) -> String {
    let map: serde_json::Map<String, serde_json::Value> = filters
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(key, values)| ((*key).to_owned(), serde_json::json!(values)))
        .collect();
    escaped(&serde_json::Value::Object(map).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes_from_a_parameter() {
        assert_eq!(
            escaped("a/b?c&d=e f%\u{e9}"),
            "a%2Fb%3Fc%26d%3De%20f%25%C3%A9"
        );
        let label = ["a=b".to_owned()];
        assert_eq!(
            filters(&[("label", &label), ("id", &[])]),
            escaped(r#"{"label":["a=b"]}"#)
        );
    }
}
