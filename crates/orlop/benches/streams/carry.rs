//! Bulk: what comes out of a command and what goes into one.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use orlop_streaming::client::{ClientStreams, Protocol, exec};
use orlop_testkit::process::memory;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::process::Command;

use crate::report::Report;
use crate::{Subject, outputs, over};

/// `cat` of a file.
pub(crate) const DOWN_SPDY: &str = "exec cat, SPDY";
/// The same.
pub(crate) const DOWN_WEBSOCKET: &str = "exec cat, WebSocket";
/// By how much the daemon grows meanwhile.
pub(crate) const GROWTH: &str = "daemon's growth";
const UP_SPDY: &str = "upload, SPDY";
const UP_WEBSOCKET: &str = "upload, WebSocket";

/// A file of random data, in memory where there is a place for that.
pub(crate) struct Data {
    path: PathBuf,
    bytes: usize,
    block: Arc<[u8]>,
}

impl Data {
    /// A block over and over; its digest is no one else's.
    pub(crate) fn make(mib: usize) -> Self {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = directory.join(format!("orlop-bench-{}", std::process::id()));
        let mut block = vec![0; 1 << 20];
        let mut random = File::open("/dev/urandom").unwrap();
        random.read_exact(&mut block).unwrap();
        let data = Self {
            bytes: mib << 20,
            block: block.into(),
            path,
        };
        let mut file = File::create(&data.path).unwrap();
        for _ in 0..mib {
            file.write_all(&data.block).unwrap();
        }
        data
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn source(&self) -> Source {
        Source {
            block: self.block.clone(),
            at: 0,
            left: self.bytes,
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

pub(crate) async fn run(subject: &Subject, data: &Data, report: &mut Report) {
    let daemon = subject.node.pid();
    let before = memory(daemon, "VmRSS:");
    // From here on the largest resident set counts anew.
    fs::write(format!("/proc/{daemon}/clear_refs"), "5").unwrap();
    for (protocol, row) in [
        (Protocol::Spdy, DOWN_SPDY),
        (Protocol::WebSocket, DOWN_WEBSOCKET),
    ] {
        let url = subject.url(&["cat", "/data"], false).await;
        let counter = Counter::default();
        let streams = ClientStreams {
            stdout: Some(Box::new(counter.clone())),
            ..outputs()
        };
        let start = Instant::now();
        exec(&url, &over(protocol), streams)
            .await
            .expect("a session");
        rate(row, subject, data.bytes, start, report);
        assert_eq!(
            counter.0.load(Ordering::Relaxed),
            data.bytes,
            "bytes were lost"
        );
    }
    for (protocol, row) in [
        (Protocol::Spdy, UP_SPDY),
        (Protocol::WebSocket, UP_WEBSOCKET),
    ] {
        if protocol == Protocol::WebSocket && subject.node.is_peer() {
            // containerd 1.6 has no way to be told the end of what is sent.
            continue;
        }
        // Its reading limits both alike. `cat` and `dd` break off on containerd's pipes.
        let url = subject.url(&["wc", "-c"], true).await;
        let (mut ours, theirs) = tokio::io::duplex(1 << 10);
        let streams = ClientStreams {
            stdin: Some(Box::new(data.source())),
            stdout: Some(Box::new(theirs)),
            ..outputs()
        };
        let options = over(protocol);
        let start = Instant::now();
        let mut told = String::new();
        let (code, read) = tokio::join!(
            exec(&url, &options, streams),
            ours.read_to_string(&mut told)
        );
        assert_eq!(code.expect("a session"), 0);
        read.unwrap();
        rate(row, subject, data.bytes, start, report);
        assert_eq!(told.trim(), data.bytes.to_string(), "bytes were lost");
    }
    let growth = memory(daemon, "VmHWM:").saturating_sub(before);
    report.number(GROWTH, "kB", subject.name, growth as f64);
}

/// Both ways with digests, which take longer than the transfers.
pub(crate) async fn whole(subject: &Subject, data: &Data) {
    let digest = |input: Stdio| {
        let mut command = Command::new("sha256sum");
        command.stdin(input).stdout(Stdio::piped());
        command.spawn().expect("sha256sum")
    };
    let wanted = digest(File::open(&data.path).unwrap().into());
    let wanted = wanted.wait_with_output().await.unwrap().stdout;
    for protocol in [Protocol::Spdy, Protocol::WebSocket] {
        let url = subject.url(&["cat", "/data"], false).await;
        let mut child = digest(Stdio::piped());
        let streams = ClientStreams {
            stdout: Some(Box::new(child.stdin.take().unwrap())),
            ..outputs()
        };
        exec(&url, &over(protocol), streams)
            .await
            .expect("a session");
        let got = child.wait_with_output().await.unwrap().stdout;
        assert_eq!(got, wanted, "{protocol:?}: the digests differ");

        let url = subject.url(&["sha256sum"], true).await;
        let (mut ours, theirs) = tokio::io::duplex(1 << 10);
        let streams = ClientStreams {
            stdin: Some(Box::new(data.source())),
            stdout: Some(Box::new(theirs)),
            ..outputs()
        };
        let options = over(protocol);
        let mut got = Vec::new();
        let (code, read) = tokio::join!(exec(&url, &options, streams), ours.read_to_end(&mut got));
        assert_eq!(code.expect("a session"), 0);
        read.unwrap();
        assert_eq!(got, wanted, "{protocol:?}: the digests differ");
    }
}

/// Notes the speed of a transfer.
pub(crate) fn rate(
    row: &'static str,
    subject: &Subject,
    bytes: usize,
    start: Instant,
    report: &mut Report,
) {
    let speed = bytes as f64 / 1e6 / start.elapsed().as_secs_f64();
    report.number(row, "MB/s", subject.name, speed);
}

/// A block over and over.
struct Source {
    block: Arc<[u8]>,
    at: usize,
    left: usize,
}

impl AsyncRead for Source {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let block = self.block.clone();
        let piece = &block[self.at..];
        let piece = &piece[..piece.len().min(buffer.remaining()).min(self.left)];
        buffer.put_slice(piece);
        self.at = (self.at + piece.len()) % block.len();
        self.left -= piece.len();
        Poll::Ready(Ok(()))
    }
}

#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl AsyncWrite for Counter {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.0.fetch_add(data.len(), Ordering::Relaxed);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
