//! Tests of the layer from a client's view, around services that misbehave.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use orlop_listen::Activity;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service, service_fn};

use super::CallMetrics;
use super::body::CallBody;
use super::layer::{CallLayer, Policy};
use super::peer::Peer;
use crate::config::Config;

const SOON: Duration = Duration::from_secs(10);

struct Bench {
    registry: Registry,
    layer: CallLayer,
    closing: CancellationToken,
}

impl Bench {
    fn new(max_streams: u32) -> Self {
        let mut config = Config::default().grpc;
        config.max_streams = max_streams.try_into().unwrap();
        let mut registry = Registry::default();
        let metrics = CallMetrics::new(&mut registry);
        let closing = CancellationToken::new();
        let policy = Policy::new(&config, None, metrics, closing.clone());
        Self {
            registry,
            layer: CallLayer(Arc::new(policy)),
            closing,
        }
    }

    async fn call<F, Fut>(&self, handler: F) -> Response<CallBody>
    where
        F: Fn() -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Body> + Send + 'static,
    {
        self.send(request(), handler).await
    }

    async fn send<F, Fut>(&self, request: Request<Body>, handler: F) -> Response<CallBody>
    where
        F: Fn() -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Body> + Send + 'static,
    {
        let service = service_fn(move |_: Request<Body>| {
            let body = handler();
            async move { Ok::<_, Infallible>(Response::new(body.await)) }
        });
        let Ok(response) = timeout(SOON, self.layer.layer(service).call(request))
            .await
            .expect("an answer");
        response
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }

    fn counted(&self, code: &str) {
        let line = format!(
            "orlop_rpc_handled_total{{service=\"runtime.v1.RuntimeService\",method=\"Version\",code=\"{code}\"}} 1"
        );
        let metrics = self.metrics();
        assert!(metrics.contains(&line), "no {line} in\n{metrics}");
        assert!(metrics.contains(
            "orlop_rpc_in_flight{service=\"runtime.v1.RuntimeService\",method=\"Version\"} 0"
        ));
    }
}

fn request() -> Request<Body> {
    Request::builder()
        .uri("/runtime.v1.RuntimeService/Version")
        .body(Body::empty())
        .unwrap()
}

/// Returns a body of one message that never ends.
fn endless() -> Body {
    let message = stream::iter([Ok::<_, Status>(Frame::data(Bytes::from_static(b"one")))]);
    Body::new(StreamBody::new(message.chain(stream::pending())))
}

/// Returns the status at the end of a body.
async fn status(response: Response<CallBody>) -> Status {
    if let Some(status) = Status::from_header_map(response.headers()) {
        return status;
    }
    let mut body = response.into_body();
    loop {
        let frame = timeout(SOON, body.frame())
            .await
            .expect("an end")
            .expect("trailers")
            .unwrap();
        if let Some(trailers) = frame.trailers_ref() {
            return Status::from_header_map(trailers).unwrap();
        }
    }
}

#[tokio::test]
async fn a_handler_that_panics_is_answered_for() {
    let bench = Bench::new(1);
    let response = bench.call(|| async { panic!("boom") }).await;
    let status = status(response).await;
    assert_eq!(status.code(), Code::Internal);
    assert!(!status.message().contains("boom"), "{}", status.message());
    bench.counted("INTERNAL");
}

#[tokio::test]
async fn answers_that_nobody_reads_are_refused_and_streams_are_not() {
    let bench = Bench::new(1);
    let peer = Peer::of(Some(7), Activity::new(TaskTracker::new().token()));
    let ask = || {
        let mut request = request();
        request.extensions_mut().insert(peer.clone());
        request
    };
    let large = || async {
        let message = Ok::<_, Status>(Frame::data(Bytes::from(vec![0; 16 << 20])));
        let end = Status::new(Code::Ok, "")
            .into_http::<()>()
            .headers()
            .clone();
        Body::new(StreamBody::new(stream::iter([
            message,
            Ok(Frame::trailers(end)),
        ])))
    };
    let mut unread = Vec::new();
    for _ in 0..7 {
        unread.push(bench.send(ask(), large).await);
    }
    let refused = bench.send(ask(), large).await;
    assert_eq!(status(refused).await.code(), Code::ResourceExhausted);
    let mut opened = bench.send(ask(), || async { endless() }).await.into_body();
    let first = timeout(SOON, opened.frame()).await.unwrap().unwrap();
    assert_eq!(first.unwrap().into_data().unwrap(), "one");
    for read in unread {
        assert_eq!(status(read).await.code(), Code::Ok);
    }
    let answer = bench.send(ask(), large).await.into_body();
    let whole = timeout(SOON, answer.collect()).await.unwrap().unwrap();
    assert_eq!(whole.to_bytes().len(), 16 << 20);
}

#[tokio::test]
async fn messages_of_a_stream_that_nobody_reads_count_and_have_a_stream_s_room() {
    let bench = Bench::new(1);
    let peer = Peer::of(Some(7), Activity::new(TaskTracker::new().token()));
    let ask = || {
        let mut request = request();
        request.extensions_mut().insert(peer.clone());
        request
    };
    let of = |messages: usize| {
        move || async move {
            let message = Bytes::from(vec![0; 100 << 20]);
            let frames = std::iter::repeat_n(message, messages);
            Body::new(StreamBody::new(stream::iter(
                frames.map(|message| Ok::<_, Status>(Frame::data(message))),
            )))
        }
    };
    let mut list = bench.send(ask(), of(3)).await.into_body();
    let second = bench.send(ask(), of(3)).await;
    assert_eq!(status(second).await.code(), Code::ResourceExhausted);
    let unread = list.frame().await.unwrap().unwrap().into_data().unwrap();
    let refused = bench.send(ask(), of(1)).await;
    assert_eq!(status(refused).await.code(), Code::ResourceExhausted);
    assert_eq!(unread.len(), 100 << 20);
    drop(unread);
    let answered = bench.send(ask(), of(1)).await.into_body();
    assert_eq!(
        answered.collect().await.unwrap().to_bytes().len(),
        100 << 20
    );
}

#[tokio::test]
async fn a_stream_that_panics_ends_with_a_status() {
    let bench = Bench::new(1);
    let response = bench
        .call(|| async {
            let items = stream::poll_fn(
                |_| -> std::task::Poll<Option<Result<Frame<Bytes>, Status>>> { panic!("boom") },
            );
            Body::new(StreamBody::new(items))
        })
        .await;
    assert_eq!(status(response).await.code(), Code::Internal);
    bench.counted("INTERNAL");
}

#[tokio::test]
async fn the_client_s_deadline_is_named_as_such() {
    let bench = Bench::new(1);
    let mut request = request();
    request
        .headers_mut()
        .insert("grpc-timeout", HeaderValue::from_static("5m"));
    let response = bench.send(request, std::future::pending).await;
    assert_eq!(status(response).await.code(), Code::DeadlineExceeded);
    bench.counted("DEADLINE_EXCEEDED");
}

#[tokio::test]
async fn the_request_s_own_id_comes_back() {
    let bench = Bench::new(1);
    let mut request = request();
    request
        .headers_mut()
        .insert("x-request-id", HeaderValue::from_static("kubelet-42"));
    let response = bench.send(request, || async { Body::empty() }).await;
    assert_eq!(response.headers()["x-request-id"], "kubelet-42");
}

#[tokio::test]
async fn a_stopping_daemon_ends_its_streams() {
    let bench = Bench::new(1);
    let response = bench.call(|| async { endless() }).await;
    let ended = tokio::spawn(status(response));
    tokio::task::yield_now().await;
    bench.closing.cancel();
    assert_eq!(ended.await.unwrap().code(), Code::Unavailable);
    bench.counted("UNAVAILABLE");
}

#[tokio::test]
async fn streams_beyond_the_bound_are_refused_and_calls_are_not() {
    let bench = Bench::new(1);
    let first = bench.call(|| async { endless() }).await;
    let mut first = first.into_body();
    first.frame().await.unwrap().unwrap();
    assert!(
        timeout(Duration::from_millis(10), first.frame())
            .await
            .is_err(),
        "it is silent"
    );
    let second = bench.call(|| async { endless() }).await;
    assert_eq!(status(second).await.code(), Code::ResourceExhausted);
    let call = bench.call(|| async { Body::empty() }).await;
    assert!(call.into_body().frame().await.is_none());
    drop(first);
    let third = bench.call(|| async { endless() }).await;
    let mut third = third.into_body();
    third.frame().await.unwrap().unwrap();
    assert!(
        timeout(Duration::from_millis(10), third.frame())
            .await
            .is_err(),
        "it is silent"
    );
}

#[tokio::test]
async fn a_client_that_leaves_is_counted_as_such() {
    let bench = Bench::new(1);
    drop(bench.call(|| async { endless() }).await);
    bench.counted("CANCELLED");
}
