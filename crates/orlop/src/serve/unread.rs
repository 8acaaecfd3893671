//! Tests with clients that send requests and do not read the responses, frame by frame over a real socket.

use std::convert::Infallible;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use orlop_cri_api::v1::VersionResponse;
use orlop_listen::{ConnectionLimits, Connections, Listener};
use orlop_testkit::cri::Cri;
use prometheus_client::registry::Registry;
use prost::Message as _;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower::Service;

use super::incoming::incoming;
use super::serving::server;
use crate::config::Config;
use crate::rpc::{CallLayer, CallMetrics, Peer, Policy};

const SOON: Duration = Duration::from_secs(10);
/// Response size. This many of them are the limit of what one process may leave unread.
const SIZE: usize = 15 << 20;
const MOST: usize = 8;

/// Responds to `Version` with a long message, and reports each call.
#[derive(Clone)]
struct Lengthy {
    answer: Bytes,
    asked: mpsc::UnboundedSender<Peer>,
}

impl NamedService for Lengthy {
    const NAME: &'static str = "runtime.v1.RuntimeService";
}

impl Service<Request<Body>> for Lengthy {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let peer = request.extensions().get::<Peer>().cloned().unwrap();
        self.asked.send(peer).unwrap();
        let end = Status::new(Code::Ok, "").into_http::<()>();
        let frames = [
            Ok::<_, Status>(Frame::data(self.answer.clone())),
            Ok(Frame::trailers(end.headers().clone())),
        ];
        let mut response = Response::new(Body::new(StreamBody::new(stream::iter(frames))));
        let kind = http::HeaderValue::from_static("application/grpc");
        response.headers_mut().insert("content-type", kind);
        Box::pin(async { Ok(response) })
    }
}

/// A server with a connection limit.
struct Bench {
    directory: TempDir,
    asked: mpsc::UnboundedReceiver<Peer>,
}

impl Bench {
    fn new(connections: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = Listener::unix(&directory.path().join("socket"), 0o600, None).unwrap();
        let grpc = Config::default().grpc;
        let metrics = CallMetrics::new(&mut Registry::default());
        let stop = CancellationToken::new();
        let policy = Policy::new(&grpc, None, metrics, stop.clone());
        let message = VersionResponse {
            runtime_name: "x".repeat(SIZE),
            ..VersionResponse::default()
        };
        let message = message.encode_to_vec();
        // Uncompressed, and the length.
        let mut answer = vec![0];
        answer.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        answer.extend(message);
        let (asking, asked) = mpsc::unbounded_channel();
        let lengthy = Lengthy {
            answer: answer.into(),
            asked: asking,
        };
        let connections = Connections::new(ConnectionLimits::of(connections));
        let clients = incoming(vec![listener], connections, stop);
        let server = server(&grpc)
            .layer(CallLayer(Arc::new(policy)))
            .add_service(lengthy);
        tokio::spawn(server.serve_with_incoming(Box::pin(clients)));
        Self { directory, asked }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    async fn asked(&mut self) -> Peer {
        let asked = timeout(SOON, self.asked.recv()).await;
        asked.expect("a call").unwrap()
    }

    /// Waits until calls of this process end with the code.
    async fn comes_to(&self, code: Code) {
        let mut last = None;
        let ends = async {
            let cri = Cri::connect(&self.socket()).await.unwrap();
            while last != Some(code) {
                let answer = cri.version().await;
                last = Some(answer.err().map_or(Code::Ok, |status| status.code()));
                sleep(Duration::from_millis(20)).await;
            }
        };
        let in_time = timeout(SOON, ends).await;
        assert!(in_time.is_ok(), "not {code:?} but {last:?}");
    }
}

/// Requests the version this many times on a new connection, and reads nothing.
fn ask(bench: &Bench, calls: usize, window: u32) -> UnixStream {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const WINDOW_UPDATE: u8 = 8;
    const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut frame = |kind, flags, stream: u32, payload: &[u8]| {
        bytes.extend(&u32::try_from(payload.len()).unwrap().to_be_bytes()[1..]);
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
    };
    let setting = [&INITIAL_WINDOW_SIZE[..], &window.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &setting);
    // Window of the connection, as large as possible.
    let more = (1_u32 << 31) - 1 - 65_535;
    frame(WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
    let path = b"/runtime.v1.RuntimeService/Version";
    // RFC 7541: `:method: POST`, `:scheme: http`, and literals that are not indexed.
    let mut headers = vec![0x83, 0x86, 0x04, path.len() as u8];
    headers.extend(path);
    headers.extend(b"\x01\x09localhost\x0f\x10\x10application/grpc\x00\x02te\x08trailers");
    for call in 0..calls {
        let stream = u32::try_from(2 * call + 1).unwrap();
        frame(HEADERS, 0x4, stream, &headers);
        // An empty message, and the end of the stream.
        frame(DATA, 0x1, stream, &[0; 5]);
    }
    let mut socket = UnixStream::connect(bench.socket()).unwrap();
    socket.write_all(&bytes).unwrap();
    socket
}

/// Single-threaded, so that earlier calls are counted when another client calls.
#[tokio::test]
async fn answers_that_nobody_reads_are_counted_whatever_the_window() {
    for window in [0, 1, 65_535, (1 << 31) - 1] {
        let mut bench = Bench::new(8);
        let unread = ask(&bench, MOST, window);
        for _ in 0..MOST {
            bench.asked().await;
        }
        bench.comes_to(Code::ResourceExhausted).await;
        // Still refused as long as the responses are unread.
        sleep(Duration::from_millis(100)).await;
        bench.comes_to(Code::ResourceExhausted).await;
        drop(unread);
        bench.comes_to(Code::Ok).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_whose_socket_is_full_is_closed_when_it_is_to_leave() {
    let mut bench = Bench::new(1);
    let unread = ask(&bench, 1, (1 << 31) - 1);
    let peer = bench.asked().await;
    // The socket is full by then.
    sleep(Duration::from_millis(300)).await;
    peer.leave();
    bench.comes_to(Code::Ok).await;
    drop(unread);
}
