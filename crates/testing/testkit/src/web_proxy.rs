//! An HTTP proxy for outgoing connections: `CONNECT` and plain requests, all recorded.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use crate::serve::Server;

/// A web proxy that only reaches the hosts of the test, stopped on drop.
#[derive(Debug)]
pub struct WebProxy {
    server: Server,
    seen: Arc<Mutex<Vec<String>>>,
}

type World = BTreeMap<String, SocketAddr>;

impl WebProxy {
    /// Starts a proxy that knows these hosts (`name:port`) and no others.
    pub fn knowing<'a>(hosts: impl IntoIterator<Item = (&'a str, SocketAddr)>) -> Self {
        let hosts = hosts.into_iter();
        let world: Arc<World> = Arc::new(hosts.map(|(name, to)| (name.to_owned(), to)).collect());
        let seen = Arc::new(Mutex::default());
        let server = Server::start({
            let seen = Arc::clone(&seen);
            move |stream| serve(stream, Arc::clone(&world), Arc::clone(&seen))
        });
        Self { server, seen }
    }

    /// Returns its URL for the environment.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Returns its URL with a login.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("http://{user}:{password}@{}", self.server.address())
    }

    /// Returns the head of the first request on each connection.
    pub fn seen(&self) -> Vec<String> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn serve(mut near: TcpStream, world: Arc<World>, seen: Arc<Mutex<Vec<String>>>) {
    let Some(head) = head(&mut near).await else {
        return;
    };
    seen.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(head.clone());
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let tunnel = method == "CONNECT";
    let host = if tunnel {
        target.to_owned()
    } else {
        let rest = target.strip_prefix("http://").unwrap_or("");
        let host = rest.split('/').next().unwrap_or("");
        let port = if host.contains(':') { "" } else { ":80" };
        format!("{host}{port}")
    };
    let Some(to) = world.get(&host) else {
        let _ = near
            .write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
            .await;
        return;
    };
    let Ok(mut far) = TcpStream::connect(to).await else {
        return;
    };
    // Servers must accept a request with an absolute URL (RFC 9112, 3.2.2).
    let opened = if tunnel {
        near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await
    } else {
        far.write_all(head.as_bytes()).await
    };
    if opened.is_ok() {
        let _ = copy_bidirectional(&mut near, &mut far).await;
    }
}

/// Reads the first request up to its empty line. The client sends nothing more before a response.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 64 << 10 {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}
