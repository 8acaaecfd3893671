//! Traces that go to a collector, by OTLP over HTTP and over gRPC.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use orlop_testkit::tls::{Authority, TlsFront};
use orlop_testkit::{Node, machine, skip_unless};
use orlop_text::hex::encode as hex;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

use crate::reload::reload;
use crate::world::{World, world};

#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    id: Vec<u8>,
    #[prost(string, tag = "3")]
    state: String,
    #[prost(bytes = "vec", tag = "4")]
    parent: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
}

/// Spans that came by HTTP, and by gRPC, with the header `x-key` of the request.
struct Collector {
    address: String,
    spans: mpsc::UnboundedReceiver<(&'static str, String, Vec<Span>)>,
}

impl Collector {
    async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let address = listener.local_addr().expect("address").to_string();
        let (tell, spans) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tell = tell.clone();
                let answer = hyper::service::service_fn(move |request| {
                    let tell = tell.clone();
                    async move { Ok::<_, Infallible>(take(request, tell).await) }
                });
                tokio::spawn(async move {
                    let mut head = [0; 3];
                    stream.peek(&mut head).await.expect("a request");
                    let io = TokioIo::new(stream);
                    // What h2 begins with.
                    if &head == b"PRI" {
                        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                        let _ = server.serve_connection(io, answer).await;
                    } else {
                        let server = hyper::server::conn::http1::Builder::new();
                        let _ = server.serve_connection(io, answer).await;
                    }
                });
            }
        });
        Self { address, spans }
    }

    async fn next(&mut self) -> (&'static str, String, Vec<Span>) {
        let came = timeout(Duration::from_secs(20), self.spans.recv()).await;
        came.expect("spans come").expect("the collector listens")
    }

    /// The call of this name with its steps; what comes before it is of no interest.
    async fn call(&mut self, name: &str) -> (&'static str, String, Vec<Span>) {
        loop {
            let (how, key, spans) = self.next().await;
            let Some(call) = spans.iter().find(|span| span.name == name) else {
                continue;
            };
            let is_of_it = |span: &&Span| span.id == call.id || span.parent == call.id;
            let call = spans.iter().filter(is_of_it).cloned().collect();
            return (how, key, call);
        }
    }

    fn nothing_more(&mut self) {
        assert!(self.spans.try_recv().is_err(), "what came should not have");
    }
}

type Tell = mpsc::UnboundedSender<(&'static str, String, Vec<Span>)>;

async fn take(request: Request<Incoming>, tell: Tell) -> Response<Body> {
    let key = request
        .headers()
        .get("x-key")
        .map(|key| key.to_str().expect("text").to_owned());
    let key = key.unwrap_or_default();
    match request.uri().path() {
        "/v1/traces" => {
            assert_eq!(request.headers()["content-type"], "application/x-protobuf");
            let body = request
                .into_body()
                .collect()
                .await
                .expect("a body")
                .to_bytes();
            tell_of(&tell, "http", key, Export::decode(body).expect("protobuf"));
            Response::new(Body::new(Full::default()))
        }
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export" => {
            let mut grpc = Grpc::new(ProstCodec::<(), Export>::default());
            grpc.unary(ByGrpc { tell, key }, request).await
        }
        path => panic!("nobody asks for {path}"),
    }
}

fn tell_of(tell: &Tell, how: &'static str, key: String, export: Export) {
    let scopes = export
        .resources
        .into_iter()
        .flat_map(|resource| resource.scopes);
    let spans = scopes.flat_map(|scope| scope.spans).collect();
    let _ = tell.send((how, key, spans));
}

struct ByGrpc {
    tell: Tell,
    key: String,
}

impl UnaryService<Export> for ByGrpc {
    type Response = ();
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<()>, tonic::Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Export>) -> Self::Future {
        tell_of(&self.tell, "grpc", self.key.clone(), request.into_inner());
        Box::pin(async { Ok(tonic::Response::new(())) })
    }
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Runs a pod for a client that traces, and keeps its trace or not.
async fn run_traced(world: &World, name: &str, flags: &str) {
    let mut request = tonic::Request::new(orlop_cri_api::v1::RunPodSandboxRequest {
        config: Some(world.node.pod(name).config()),
        ..Default::default()
    });
    let header = format!("00-{TRACE}-{PARENT}-{flags}")
        .parse()
        .expect("a value");
    request.metadata_mut().insert("traceparent", header);
    let state = "vendor=one".parse().expect("a value");
    request.metadata_mut().insert("tracestate", state);
    let mut client = world.cri.runtime();
    client.run_pod_sandbox(request).await.expect("run a pod");
}

fn assert_joined(spans: &[Span]) {
    let call = &spans[0];
    assert_eq!(
        (call.name.as_str(), hex(&call.parent).as_str()),
        ("RunPodSandbox", PARENT)
    );
    for span in spans {
        assert_eq!(
            (hex(&span.trace).as_str(), span.state.as_str()),
            (TRACE, "vendor=one")
        );
        assert!(
            span.start <= span.end && span.start > 1_700_000_000_000_000_000,
            "{span:?}"
        );
        assert_eq!(span.id.len(), 8);
    }
    for step in &spans[1..] {
        assert_eq!(step.parent, call.id, "{step:?}");
    }
    assert!(spans.iter().any(|span| span.name == "keeper"), "{spans:?}");
}

#[tokio::test]
async fn spans_reach_a_collector_in_the_client_s_trace_over_http_and_grpc() {
    let (mut first, mut second) = (Collector::listen().await, Collector::listen().await);
    let to = format!("[traces]\notlp = \"http://{}\"", first.address);
    let world = world!(Node::orlop().drop_in(&to));
    first.call("PullImage").await;
    run_traced(&world, "by-http", "01").await;
    let (how, _, spans) = first.call("RunPodSandbox").await;
    assert_eq!(how, "http");
    assert_joined(&spans);

    // Elsewhere, by another protocol, with a header, and of clients that do not trace nothing.
    let headers = world.node.scratch().path("headers");
    std::fs::write(&headers, "x-key: sesame\n").expect("write headers");
    let said = reload(
        &world,
        &format!(
            "[traces]\notlp = \"http://{}\"\nprotocol = \"grpc\"\nsample = 0\nheaders_file = {headers:?}",
            second.address
        ),
    )
    .expect("reload");
    assert!(
        said.contains("traces.otlp") && !said.contains("restart"),
        "{said}"
    );
    let untraced = world.node.pod("untraced");
    world.cri.run_pod(&untraced).await.expect("run a pod");
    run_traced(&world, "not-kept", "00").await;
    run_traced(&world, "by-grpc", "01").await;
    let (how, key, spans) = second.next().await;
    assert_eq!((how, key.as_str()), ("grpc", "sesame"));
    assert_joined(&spans);
    second.nothing_more();

    // Nowhere; then where nobody listens, which costs no pod.
    reload(&world, "[traces]\notlp = \"\"").expect("reload");
    run_traced(&world, "nowhere", "01").await;
    reload(&world, "[traces]\notlp = \"http://127.0.0.1:1\"").expect("reload");
    run_traced(&world, "away", "01").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    first.nothing_more();
    second.nothing_more();
    assert!(
        world.node.log().contains("dropping traces until"),
        "it is said"
    );
    world.finish().await;
}

#[tokio::test]
async fn a_collector_with_tls_must_be_one_that_the_authority_vouches_for() {
    skip_unless!(machine::has_program("openssl"));
    let mut collector = Collector::listen().await;
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new(dir.path(), "authority");
    let own = authority.issue("collector", "IP:127.0.0.1");
    let upstream = collector.address.parse().expect("an address");
    let front = TlsFront::before(upstream, &own, None);
    let to = |ca: &std::path::Path| {
        format!(
            "[traces]\notlp = \"https://{}\"\nca = {ca:?}",
            front.address()
        )
    };
    let other = Authority::new(dir.path(), "other");
    let world = world!(Node::orlop().drop_in(&to(other.certificate())));
    run_traced(&world, "mistrusted", "01").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    collector.nothing_more();
    reload(&world, &to(authority.certificate())).expect("reload");
    run_traced(&world, "trusted", "01").await;
    assert_joined(&collector.call("RunPodSandbox").await.2);
    world.finish().await;
}
