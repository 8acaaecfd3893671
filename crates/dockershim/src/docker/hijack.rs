//! HTTP upgrade of a connection to the streams of a process.

use bytes::Bytes;
use http::{HeaderName, Method, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;

use super::client::Docker;
use super::error::{DockerError, Result};
use super::reply::Reply;

/// An upgraded connection that carries the streams of a process.
pub(crate) type Hijacked = TokioIo<Upgraded>;

impl Docker {
    /// Sends a POST request and returns the upgraded connection.
    pub(super) async fn hijack(&self, path: &str, body: Option<Bytes>) -> Result<Hijacked> {
        self.within(&Method::POST, path, self.limit(), async {
            let version = self.api().await?;
            let path = format!("/v{version}{path}");
            let headers: [(HeaderName, String); 2] = [
                (http::header::CONNECTION, "Upgrade".to_owned()),
                (http::header::UPGRADE, "tcp".to_owned()),
            ];
            let body = body.map(|body| ("application/json", body));
            let (response, connection) = self.exchange(Method::POST, &path, body, &headers).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                let doing = path.clone();
                Reply::new(response, connection, doing.clone())
                    .accepted()
                    .await?;
                return Err(DockerError::Unreadable {
                    doing,
                    problem: "the engine did not upgrade the connection".to_owned(),
                });
            }
            // The connection's task ends when it hands over the socket.
            let upgraded = hyper::upgrade::on(response).await;
            drop(connection);
            let upgraded = upgraded.map_err(|error| DockerError::Broken {
                doing: path.clone(),
                source: error.into(),
            })?;
            Ok(TokioIo::new(upgraded))
        })
        .await
    }
}
