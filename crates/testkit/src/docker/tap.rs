//! A wire tap on an engine's socket: what it is asked is passed on and written down.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;

/// Passes connections on to an engine and notes the requests, until it is dropped.
#[derive(Debug)]
pub struct EngineTap {
    socket: PathBuf,
    requests: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EngineTap {
    /// Taps the engine behind `engine`, beside whose socket that of the tap is.
    pub fn on(engine: &Path) -> Self {
        let socket = engine.with_file_name("tap.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("make a socket");
        listener
            .set_nonblocking(true)
            .expect("make a socket non-blocking");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = oneshot::channel();
        let (engine, noted) = (engine.to_owned(), requests.clone());
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("start a reactor")
                .block_on(async {
                    tokio::select! {
                        () = accept(listener, engine, noted) => {}
                        _ = stopped => {}
                    }
                });
        });
        Self {
            socket,
            requests,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The socket to be used in place of the engine's.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What was asked since the last time: `GET /v1.41/containers/json?all=1`.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for EngineTap {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Requests = Arc<Mutex<Vec<String>>>;

async fn accept(listener: std::os::unix::net::UnixListener, engine: PathBuf, requests: Requests) {
    let listener = UnixListener::from_std(listener).expect("hand over a socket");
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        let (engine, requests) = (engine.clone(), requests.clone());
        // Ends with the reactor, thus with the tap.
        tokio::spawn(async move {
            // An engine that is away is told by hanging up.
            if let Ok(server) = UnixStream::connect(engine).await {
                pass(client, server, requests).await;
            }
        });
    }
}

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

/// Finds the request lines in what a client sends.
fn note(rest: &mut Vec<u8>, bytes: &[u8], requests: &Requests) {
    rest.extend_from_slice(bytes);
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let line: Vec<u8> = rest.drain(..end + 2).collect();
        let line = String::from_utf8_lossy(&line);
        // The last body has no line's end behind it.
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
    // Nothing else is as long as a body that is streamed.
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
