//! The engine's response to a request.

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio_util::task::AbortOnDropHandle;

use super::error::{DockerError, Result};

/// The maximum size of a response; no list of containers or images is larger.
const LARGEST: usize = 256 << 20;
/// The maximum size of an error response.
const LARGEST_REFUSAL: usize = 64 << 10;

/// A response whose body is not read yet.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    body: Incoming,
    doing: String,
    _connection: AbortOnDropHandle<()>,
}

impl Reply {
    pub(super) fn new(
        response: Response<Incoming>,
        connection: AbortOnDropHandle<()>,
        doing: String,
    ) -> Self {
        Self {
            status: response.status(),
            body: response.into_body(),
            doing,
            _connection: connection,
        }
    }

    /// Returns the response if its status is a success, otherwise the engine's error.
    pub(super) async fn accepted(mut self) -> Result<Self> {
        if self.status.is_success() || self.status == StatusCode::NOT_MODIFIED {
            return Ok(self);
        }
        #[derive(Deserialize)]
        struct Words {
            message: String,
        }
        let status = self.status.as_u16();
        let body = self.bytes(LARGEST_REFUSAL).await.unwrap_or_default();
        let message = match serde_json::from_slice::<Words>(&body) {
            Ok(words) => words.message.trim().to_owned(),
            Err(_) => String::from_utf8_lossy(&body).trim().to_owned(),
        };
        let message = if message.is_empty() {
            format!(
                "the Docker Engine answered {} ({})",
                self.status, self.doing
            )
        } else {
            message
        };
        Err(DockerError::Refused { status, message })
    }

    /// Reads the next chunk of the body; `None` at its end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes>> {
        loop {
            match self.body.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Err(error) => {
                    return Some(Err(DockerError::Broken {
                        doing: self.doing.clone(),
                        source: error.into(),
                    }));
                }
            }
        }
    }

    /// Parses the body as JSON.
    pub(super) async fn json<T: DeserializeOwned>(mut self) -> Result<T> {
        let body = self.bytes(LARGEST).await?;
        serde_json::from_slice(&body).map_err(|error| DockerError::Unreadable {
            doing: self.doing.clone(),
            problem: error.to_string(),
        })
    }

    /// Reads and discards the body.
    pub(super) async fn drain(mut self) -> Result<()> {
        while let Some(piece) = self.next().await {
            piece?;
        }
        Ok(())
    }

    async fn bytes(&mut self, largest: usize) -> Result<Bytes> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.next().await {
            let piece = piece?;
            if all.len() + piece.len() > largest {
                return Err(DockerError::Unreadable {
                    doing: self.doing.clone(),
                    problem: format!("the response is longer than {largest} bytes"),
                });
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::time::Duration;

    use crate::docker::Docker;

    /// An engine whose response to one request never ends. Blanks do not end JSON.
    fn babbling(socket: &Path, status: &'static str) -> std::thread::JoinHandle<()> {
        let listener = UnixListener::bind(socket).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            write!(stream, "HTTP/1.1 {status}\r\n\r\n").unwrap();
            let blanks = vec![b' '; 64 << 10];
            while stream.write_all(&blanks).is_ok() {}
        })
    }

    #[tokio::test]
    async fn an_engine_that_answers_without_end_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        for (status, told) in [("200 OK", "268435456 bytes"), ("409 Conflict", "409")] {
            let socket = dir.path().join(told);
            let engine = babbling(&socket, status);
            let limit = Duration::from_mins(2);
            let error = Docker::new(socket, limit).version_info(limit).await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
            let ended = orlop_pool::blocking(|| engine.join());
            ended.await.unwrap().unwrap();
        }
    }
}
