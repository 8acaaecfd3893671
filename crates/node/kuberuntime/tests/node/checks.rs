//! Probes over gRPC and HTTPS, and hooks over HTTPS, of servers that stand beside the pods.

use std::convert::Infallible;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use orlop_testkit::{Authority, TlsFront, assert_contains};
use serde_json::json;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::world::{container, world};

#[derive(Clone, PartialEq, prost::Message)]
struct Question {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(int32, tag = "1")]
    status: i32,
}

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

type Reply<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// The health service, of one service named `deep`.
#[derive(Clone)]
struct Health(Arc<AtomicI32>);

impl NamedService for Health {
    const NAME: &'static str = "grpc.health.v1.Health";
}

impl UnaryService<Question> for Health {
    type Response = Answer;
    type Future = Reply<Response<Answer>, Status>;

    fn call(&mut self, request: Request<Question>) -> Self::Future {
        let status = self.0.load(Ordering::SeqCst);
        Box::pin(async move {
            match request.get_ref().service.as_str() {
                "deep" => Ok(Response::new(Answer { status })),
                other => Err(Status::not_found(format!("no service {other:?}"))),
            }
        })
    }
}

impl Service<http::Request<Body>> for Health {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Reply<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let own = self.clone();
        Box::pin(async move {
            assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
            let mut grpc = Grpc::new(ProstCodec::<Answer, Question>::default());
            Ok(grpc.unary(own, request).await)
        })
    }
}

async fn health(status: Arc<AtomicI32>) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(Health(status))
            .serve_with_incoming(incoming),
    );
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn health_over_grpc_decides_who_is_ready_and_who_is_started_anew() {
    let world = world!();
    let status = Arc::new(AtomicI32::new(NOT_SERVING));
    let port = health(status.clone()).await;
    let mut main = world.idle("main");
    main["readinessProbe"] = json!({"grpc": {"port": port, "service": "deep"},
                                    "periodSeconds": 1, "failureThreshold": 1});
    let uid = world.run("asked", json!({"hostNetwork": true, "containers": [main]}));
    let mut lost = world.idle("lost");
    lost["livenessProbe"] = json!({"grpc": {"port": port, "service": "none"},
                                   "periodSeconds": 1, "failureThreshold": 1});
    let other = world.run("lost", json!({"hostNetwork": true, "containers": [lost]}));
    world.event(&uid, "Unhealthy main").await;
    let story = world.story(&uid);
    assert!(
        story.contains("Readiness probe failed: service unhealthy (responded with status 2)")
            || story.contains("responded with \\\"NOT_SERVING\\\"")
            || story.contains("NOT_SERVING"),
        "{story}"
    );
    status.store(SERVING, Ordering::SeqCst);
    world.ready(&uid).await;
    status.store(NOT_SERVING, Ordering::SeqCst);
    let view = world.until(&uid, "unready", |view| !view.ready).await;
    assert_eq!(view.restarts, 0);
    world
        .until(&other, "started anew", |view| view.restarts > 0)
        .await;
    assert!(
        world.story(&other).contains("no service"),
        "{}",
        world.story(&other)
    );
    world.finish().await;
}

/// A server of plain HTTP that keeps what it is asked.
fn web() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                head.push_str(&line);
                line.clear();
            }
            let good = head.starts_with("GET /") && !head.contains("/bad");
            let status = if good { "200 OK" } else { "500 Bad" };
            if head.starts_with("GET /") {
                kept.lock().unwrap().push(head);
            }
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = reader.into_inner().write_all(answer.as_bytes());
        }
    });
    (address, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_and_hooks_ask_over_https_and_fall_back_where_they_should() {
    let world = world!();
    let (plain, asked) = web();
    let authority = Authority::new(&world.dir("ca"), "nobody knows it");
    let front = TlsFront::before(plain, &authority.issue("web", "DNS:elsewhere"), None);
    let secure = front.address().port();
    let get = |port: u16, path: &str| {
        json!({"scheme": "HTTPS", "port": port, "path": path, "httpHeaders": [
            {"name": "Authorization", "value": "Bearer s3cret"}, {"name": "X-Own", "value": "yes"}]})
    };
    let mut main = world.idle("main");
    // Who the server is does not matter: that it answers does.
    main["startupProbe"] = json!({"httpGet": get(secure, "/startup?a=b"), "periodSeconds": 1});
    main["readinessProbe"] = json!({"httpGet": get(secure, "/ready"), "periodSeconds": 1});
    main["lifecycle"] = json!({
        "postStart": {"httpGet": get(secure, "/post")},
        "preStop": {"httpGet": get(plain.port(), "/pre")},
    });
    let uid = world.run("asked", json!({"hostNetwork": true, "containers": [main]}));
    world.ready(&uid).await;
    // A probe that speaks TLS to a server that does not has failed; a hook falls back.
    let mut wrong = world.idle("wrong");
    wrong["readinessProbe"] = json!({"httpGet": get(plain.port(), "/wrong"), "periodSeconds": 1});
    let mut bad = world.idle("bad");
    bad["readinessProbe"] = json!({"httpGet": get(secure, "/bad"), "periodSeconds": 1});
    let other = world.run(
        "other",
        json!({"hostNetwork": true, "containers": [wrong, bad]}),
    );
    world.event(&other, "Unhealthy wrong").await;
    world.event(&other, "Unhealthy bad").await;
    let story = world.story(&other);
    assert_contains!(
        story,
        "HTTP probe failed with statuscode: 500",
        "server gave HTTP response to HTTPS client"
    );
    let view = world.manager.pod(&other).unwrap();
    assert_eq!(container(&view, "wrong")["ready"], false);

    world.manager.remove_pod(&uid, None);
    world.gone(&uid).await;
    world.event(&uid, "LifecycleHTTPFallback main").await;
    {
        let asked = asked.lock().unwrap();
        let of = |path: &str| {
            let found = asked
                .iter()
                .find(|head| head.starts_with(&format!("GET {path}")));
            found
                .unwrap_or_else(|| panic!("{path} was not asked: {asked:?}"))
                .to_lowercase()
        };
        assert!(of("/startup?a=b").contains("user-agent: kube-probe/"));
        assert!(of("/post").contains("user-agent: kube-lifecycle/"));
        assert!(of("/post").contains("authorization: bearer s3cret"));
        assert!(of("/pre").contains("x-own: yes"));
        assert!(
            !of("/pre").contains("s3cret"),
            "a secret must not cross in plain text"
        );
    }
    let metrics = world.manager.metrics();
    assert_contains!(metrics, "kubelet_lifecycle_handler_http_fallbacks_total 1");
    world.finish().await;
}
