//! A proxy in front of an engine's socket that records requests.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::serve::Background;

/// A recording proxy, stopped on drop.
#[derive(Debug)]
pub struct EngineTap {
    socket: PathBuf,
    requests: Requests,
    _accepting: Background,
}

impl EngineTap {
    /// Starts a proxy for the engine at `engine`, with its socket in the same directory.
    pub fn on(engine: &Path) -> Self {
        let socket = engine.with_file_name("tap.sock");
        let requests = Requests::default();
        let (engine, noted) = (engine.to_owned(), requests.clone());
        let accepting = Background::at(&socket, move |client| {
            let (engine, noted) = (engine.clone(), noted.clone());
            async move {
                // If the engine is down, the connection is closed.
                if let Ok(server) = UnixStream::connect(engine).await {
                    pass(client, server, noted).await;
                }
            }
        });
        Self {
            socket,
            requests,
            _accepting: accepting,
        }
    }

    /// Returns the socket to use in place of the engine's.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the requests since the last call: `GET /v1.41/containers/json?all=1`.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Requests = Arc<Mutex<Vec<String>>>;

async fn pass(client: UnixStream, server: UnixStream, requests: Requests) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = async {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    let asked = async {
        let mut rest = Vec::new();
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
            note(&mut rest, &buffer[..count], &requests);
            if to_server.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
        let _ = to_server.shutdown().await;
    };
    tokio::join!(answers, asked);
}

/// Finds the request lines in the bytes of a client.
fn note(rest: &mut Vec<u8>, bytes: &[u8], requests: &Requests) {
    rest.extend_from_slice(bytes);
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let line: Vec<u8> = rest.drain(..end + 2).collect();
        let line = String::from_utf8_lossy(&line);
        // The last body may have no newline after it.
        let begun = ["GET /", "POST /", "DELETE /", "HEAD /"]
            .iter()
            .find_map(|method| line.rfind(method));
        if let (Some(begun), Some(line)) = (begun, line.trim_end().strip_suffix(" HTTP/1.1")) {
            let line = line[begun..].to_owned();
            requests
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line);
        }
    }
    // Only a streamed body is this long.
    if rest.len() > 64 * 1024 {
        rest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_behind_bodies_and_across_pieces() {
        let requests = Requests::default();
        let text = b"POST /a?x HTTP/1.1\r\nhost: b\r\n\r\n{\"k\":1}GET /c HTTP/1.1\r\n\r\n";
        let mut rest = Vec::new();
        for piece in text.chunks(7) {
            note(&mut rest, piece, &requests);
        }
        assert_eq!(*requests.lock().unwrap(), ["POST /a?x", "GET /c"]);
    }
}
