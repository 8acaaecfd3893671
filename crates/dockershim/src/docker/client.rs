//! One request, one connection, over the engine's unix socket.
//!
//! A connection to a unix socket costs some ten microseconds; not keeping any means that none
//! is ever stale after the engine was restarted.

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

/// The engine, at its socket.
#[derive(Debug)]
pub(crate) struct Docker {
    endpoint: PathBuf,
    limit: Duration,
    version: Mutex<Option<ApiVersion>>,
    operations: Operations,
}

/// How long an engine that is alive may take to take a connection.
const CONNECT: Duration = Duration::from_secs(5);

impl Docker {
    /// A client; nothing is connected yet.
    pub(crate) fn new(endpoint: PathBuf, limit: Duration) -> Self {
        Self {
            endpoint,
            limit,
            version: Mutex::new(None),
            operations: Operations::default(),
        }
    }

    /// What was counted of its calls.
    pub(crate) fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Where the engine listens.
    pub(crate) fn endpoint(&self) -> &Path {
        &self.endpoint
    }

    /// How long a call may take.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// The version of the API spoken with the engine, agreed on at the first call.
    pub(crate) async fn api(&self) -> Result<ApiVersion> {
        if let Some(version) = *self.version() {
            return Ok(version);
        }
        let info = self.version_info(CONNECT).await?;
        self.agree(&info)
    }

    /// Takes note of what the engine speaks. It may be another one than before.
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

    /// A call with no body that answers with JSON.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.within(&Method::GET, path, self.limit, async {
            self.send(Method::GET, path, None, &[]).await?.json().await
        })
        .await
    }

    /// A call whose answer does not matter beyond its being no refusal.
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

    /// A call with a JSON body that answers with JSON.
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

    /// A call whose answer goes on for as long as it likes: only its beginning has a limit.
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

    /// Does what takes so long at most, and counts it.
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

    /// The version is asked for without one, so that any engine can answer.
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
            // What goes wrong is told to the one who waits for the answer.
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
            // Whoever listens there next may be another version.
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

/// A path without its query: that may hold much, and what is asked for is clear without it.
fn shown(path: &str) -> String {
    path.split('?').next().unwrap_or_default().to_owned()
}

/// A body that is JSON.
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

/// All but what RFC 3986 leaves as it is.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// A query parameter, with whatever an URL does not take escaped.
pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Filters, as the engine wants them in a query.
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
