//! As much of a browser as the page's own scripts use.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What an event may take to come.
const PATIENCE: Duration = Duration::from_secs(40);

/// Somebody who has opened the first address.
pub(crate) struct Browser {
    address: SocketAddr,
    cookie: String,
}

impl Browser {
    /// Opens an address with a token in it.
    pub(crate) async fn open(address: &str) -> Self {
        let rest = address.strip_prefix("http://").expect("an address");
        let (host, path) = rest.split_once('/').expect("a path");
        let mut browser = Self {
            address: host.parse().expect("an address"),
            cookie: String::new(),
        };
        let (_, text) = browser.send(&format!("/{path}")).await;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = line.unwrap_or_else(|| panic!("no cookie: {text}"));
        cookie
            .split(';')
            .next()
            .unwrap()
            .clone_into(&mut browser.cookie);
        browser
    }

    async fn connect(&self, path: &str, how: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("connect");
        let (address, cookie) = (self.address, &self.cookie);
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: {how}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("ask");
        stream
    }

    /// The status and all of the answer.
    async fn send(&self, path: &str) -> (u16, String) {
        let mut stream = self.connect(path, "close").await;
        let mut answer = Vec::new();
        let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        read.expect("an answer in time").expect("an answer");
        let text = String::from_utf8(answer).expect("UTF-8");
        let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
        (status.expect("a status"), text)
    }

    /// A document and its status.
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let (status, text) = self.send(path).await;
        let body = text.split_once("\r\n\r\n").expect("a body").1;
        let value = serde_json::from_str(body);
        (status, value.unwrap_or_else(|e| panic!("{e}: {text}")))
    }

    /// A document that is there.
    pub(crate) async fn document(&self, path: &str) -> Value {
        let (status, value) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    /// A stream of events.
    pub(crate) async fn events(&self, path: &str) -> Events {
        Events {
            stream: self.connect(path, "keep-alive").await,
            unread: Vec::new(),
        }
    }
}

/// Events as they come.
pub(crate) struct Events {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Events {
    /// The next event: its kind and its data. The chunks that carry it are taken apart by their form: no line of
    /// an event is a hexadecimal number alone.
    pub(crate) async fn next(&mut self) -> (String, Value) {
        let mut kind = String::new();
        loop {
            let line = self.line().await;
            if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut kind);
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(data);
                return (kind, data.unwrap_or_else(|e| panic!("{e}: {line}")));
            }
        }
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return String::from_utf8(line)
                    .expect("UTF-8")
                    .trim_end()
                    .to_owned();
            }
            let mut buffer = [0; 16 << 10];
            let read = timeout(PATIENCE, self.stream.read(&mut buffer)).await;
            let read = read.expect("an event in time").expect("an event");
            assert!(read > 0, "the stream has ended");
            self.unread.extend_from_slice(&buffer[..read]);
        }
    }

    /// The data of the next event of a kind.
    pub(crate) async fn next_of(&mut self, kind: &str) -> Value {
        self.until(kind, |_| true).await
    }

    /// The data of the next event of a kind of which something is true.
    pub(crate) async fn until(&mut self, kind: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (its, data) = self.next().await;
            if its == kind && is_it(&data) {
                return data;
            }
        }
    }
}

/// The pod of an id in a list of pods.
pub(crate) fn pod<'a>(pods: &'a Value, id: &str) -> Option<&'a Value> {
    let pods = pods["pods"].as_array().expect("pods");
    pods.iter().find(|pod| pod["id"] == id)
}
