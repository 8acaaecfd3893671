//! Measures what a session carries over the loopback interface.
//!
//! `cargo run --release -p orlop-streaming --example throughput -- [MiB] [sha256]`
//!
//! Every line is one transfer: by which protocol, in which direction, how fast, and by how much
//! the memory of this process (server and client together) grew meanwhile. With `sha256`, both
//! ends hash what they send or get and the digests are compared.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(
    clippy::expect_used,
    reason = "a measurement that cannot be taken has failed"
)]

#[path = "../tests/stream/fixture/mod.rs"]
mod fixture;

use std::io::Write;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fixture::{PROTOCOLS, command, over, serve};
use orlop_streaming::client::{ClientStreams, Forward, Protocol, exec, port_forward};
use orlop_streaming::{PortForwardRequest, Server};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let mib: usize = args
        .next()
        .map_or(1024, |mib| mib.parse().expect("a number of MiB"));
    let hash = args.next().is_some_and(|word| word == "sha256");
    let (server, _) = serve().await;
    let file = RandomFile::make(mib);
    for protocol in PROTOCOLS {
        download(&server, protocol, &file, hash).await;
        upload(&server, protocol, &file, hash).await;
        forward(&server, protocol, mib).await;
        sessions(&server, protocol).await;
    }
    server.shutdown().await;
}

async fn download(server: &Server, protocol: Protocol, file: &RandomFile, hash: bool) {
    let url = server
        .exec_url(command(&["cat", &file.path()]))
        .expect("an URL");
    let counter = Counter::new(hash);
    let streams = ClientStreams {
        stdout: Some(Box::new(counter.clone())),
        stderr: Some(Box::new(tokio::io::sink())),
        ..ClientStreams::default()
    };
    let watch = Watch::start();
    exec(&url, &over(protocol), streams)
        .await
        .expect("a session");
    watch.stop(protocol, "download", file.mib);
    let (count, digest) = counter.result();
    assert_eq!(count, file.mib << 20, "bytes were lost");
    assert!(!hash || digest == file.digest, "the digests differ");
}

async fn upload(server: &Server, protocol: Protocol, file: &RandomFile, hash: bool) {
    let program = if hash {
        "sha256sum"
    } else {
        "cat >/dev/null; echo"
    };
    let mut request = command(&["sh", "-c", program]);
    request.stdin = true;
    let url = server.exec_url(request).expect("an URL");
    let output = fixture::Collected::default();
    let source = tokio::fs::File::open(file.path())
        .await
        .expect("the file is there");
    let streams = ClientStreams {
        stdin: Some(Box::new(source)),
        stdout: output.boxed(),
        stderr: Some(Box::new(tokio::io::sink())),
        ..ClientStreams::default()
    };
    let watch = Watch::start();
    exec(&url, &over(protocol), streams)
        .await
        .expect("a session");
    watch.stop(protocol, "upload", file.mib);
    assert!(
        !hash || output.text().starts_with(&file.digest),
        "the digests differ"
    );
}

async fn forward(server: &Server, protocol: Protocol, mib: usize) {
    let target = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = target.local_addr().expect("an address").port();
    let sender = tokio::spawn(async move {
        let (mut stream, _) = target.accept().await.expect("a connection");
        let chunk = vec![7; 1 << 20];
        for _ in 0..mib {
            stream.write_all(&chunk).await.expect("a reader");
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let local = listener.local_addr().expect("an address");
    let request = PortForwardRequest {
        pod_id: "p".to_owned(),
        ports: Vec::new(),
    };
    let url = server.port_forward_url(request).expect("an URL");
    let stop = CancellationToken::new();
    let session = tokio::spawn({
        let stop = stop.clone();
        let forwards = vec![Forward { listener, port }];
        async move { port_forward(&url, &over(protocol), forwards, stop, |_| {}).await }
    });
    let watch = Watch::start();
    let mut stream = TcpStream::connect(local).await.expect("the forwarded port");
    let mut buffer = vec![0; 1 << 18];
    let mut count = 0;
    loop {
        match stream.read(&mut buffer).await.expect("a connection") {
            0 => break,
            read => count += read,
        }
    }
    watch.stop(protocol, "port-forward", mib);
    assert_eq!(count, mib << 20, "bytes were lost");
    drop(stream);
    sender.await.expect("all sent");
    stop.cancel();
    session.await.expect("no panic").expect("ended by us");
}

/// What opening and closing a session costs, beyond the process itself.
async fn sessions(server: &Server, protocol: Protocol) {
    const ROUNDS: usize = 100;
    let mut bare = Vec::new();
    let mut whole = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        tokio::process::Command::new("true")
            .status()
            .await
            .expect("true");
        bare.push(start.elapsed());
        let start = Instant::now();
        let url = server.exec_url(command(&["true"])).expect("an URL");
        let (streams, ..) = fixture::outputs();
        exec(&url, &over(protocol), streams)
            .await
            .expect("a session");
        whole.push(start.elapsed());
    }
    bare.sort();
    whole.sort();
    let (bare, whole) = (bare[ROUNDS / 2], whole[ROUNDS / 2]);
    println!(
        "{:<10} {:<13} {:>8.2?} with the process's {:.2?} (medians of {ROUNDS})",
        format!("{protocol:?}"),
        "session",
        whole,
        bare
    );
}

/// Random data in memory-backed storage, removed at the end.
struct RandomFile {
    file: tempfile::NamedTempFile,
    mib: usize,
    digest: String,
}

impl RandomFile {
    fn make(mib: usize) -> Self {
        let shm = std::path::Path::new("/dev/shm");
        let directory = if shm.is_dir() {
            shm.to_owned()
        } else {
            std::env::temp_dir()
        };
        let mut file = tempfile::NamedTempFile::new_in(directory).expect("room for a file");
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut digest = Sha256::new();
        let mut chunk = vec![0; 1 << 20];
        for _ in 0..mib {
            for word in chunk.as_chunks_mut::<8>().0 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *word = state.to_le_bytes();
            }
            digest.update(&chunk);
            file.write_all(&chunk).expect("room for the data");
        }
        Self {
            file,
            mib,
            digest: hex(&digest.finalize()),
        }
    }

    fn path(&self) -> String {
        self.file.path().display().to_string()
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[derive(Clone)]
struct Counter(Arc<Mutex<(usize, Option<Sha256>)>>);

impl Counter {
    fn new(hash: bool) -> Self {
        Self(Arc::new(Mutex::new((0, hash.then(Sha256::new)))))
    }

    fn result(&self) -> (usize, String) {
        let mut state = self.0.lock().expect("no panic");
        let digest = state.1.take().map(|digest| hex(&digest.finalize()));
        (state.0, digest.unwrap_or_default())
    }
}

impl AsyncWrite for Counter {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let mut state = self.0.lock().expect("no panic");
        state.0 += data.len();
        if let Some(digest) = &mut state.1 {
            digest.update(data);
        }
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Time, and the largest resident set meanwhile.
struct Watch {
    start: Instant,
    before: usize,
    most: Arc<Mutex<usize>>,
    sampler: tokio::task::JoinHandle<()>,
}

impl Watch {
    fn start() -> Self {
        let before = resident_kib();
        let most = Arc::new(Mutex::new(before));
        let sampler = tokio::spawn({
            let most = most.clone();
            async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    let now = resident_kib();
                    let mut most = most.lock().expect("no panic");
                    *most = now.max(*most);
                }
            }
        });
        Self {
            start: Instant::now(),
            before,
            most,
            sampler,
        }
    }

    fn stop(self, protocol: Protocol, what: &str, mib: usize) {
        let took = self.start.elapsed().as_secs_f64();
        self.sampler.abort();
        let most = *self.most.lock().expect("no panic");
        println!(
            "{:<10} {what:<13} {:>8.0} MB/s  memory {:+} KiB",
            format!("{protocol:?}"),
            (mib << 20) as f64 / 1e6 / took,
            most - self.before
        );
    }
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("a resident set");
    line.split_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number")
}
