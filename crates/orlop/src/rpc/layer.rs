//! The tower layer around all services.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use http::{Request, Response};
use orlop_cri_server::events::Caller;
use orlop_cri_server::timeline::Arrival;
use parking_lot::RwLock;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::Instrument;

use super::answers::Answers;
use super::body::CallBody;
use super::call::Call;
use super::counts::CallMetrics;
use super::in_work::{AllInWork, InWork};
use super::limits::Limits;
use super::method::Method;
use super::peer::Peer;
use super::request_id;
use crate::config::Grpc;
use crate::memory::Settling;

/// State that all calls share.
#[derive(Debug)]
pub(crate) struct Policy {
    metrics: Arc<CallMetrics>,
    limits: RwLock<Arc<Limits>>,
    slow_call: RwLock<Option<Duration>>,
    /// Ends streams, so that a stopping daemon need not wait for them.
    closing: CancellationToken,
    /// Holds a token for each running call.
    in_work: TaskTracker,
    listed: Arc<AllInWork>,
    answers: Arc<Answers>,
    settling: Arc<Settling>,
}

fn limits(grpc: &Grpc) -> Arc<Limits> {
    let (calls, streams) = (grpc.max_calls.get(), grpc.max_streams.get());
    Arc::new(Limits::new(calls as usize, streams as usize))
}

impl Policy {
    pub(crate) fn new(
        grpc: &Grpc,
        slow_call: Option<Duration>,
        metrics: Arc<CallMetrics>,
        closing: CancellationToken,
    ) -> Self {
        Self {
            metrics,
            limits: RwLock::new(limits(grpc)),
            slow_call: RwLock::new(slow_call),
            closing,
            in_work: TaskTracker::new(),
            listed: Arc::default(),
            answers: Arc::default(),
            settling: Settling::new(),
        }
    }

    /// Sets the limits of concurrent calls. Running calls keep their permits.
    pub(crate) fn set_limits(&self, grpc: &Grpc) {
        *self.limits.write() = limits(grpc);
    }

    /// Sets the duration after which a call is logged as slow.
    pub(crate) fn set_slow_call(&self, after: Option<Duration>) {
        *self.slow_call.write() = after;
    }

    /// Waits until no call is running.
    pub(crate) async fn quiet(&self) {
        self.in_work.close();
        self.in_work.wait().await;
    }

    /// Returns the running calls, oldest first.
    pub(crate) fn calls(&self) -> Vec<InWork> {
        self.listed.all()
    }

    pub(super) fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits.read())
    }

    pub(super) fn answers(&self) -> &Arc<Answers> {
        &self.answers
    }

    /// Returns the token that is cancelled when the daemon stops.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    fn begin(&self, request: &Request<Body>, id: &str) -> Call {
        let method = Method::of(request.uri().path());
        let in_work = self.in_work.token();
        let peer = request.extensions().get::<Peer>();
        let calling = peer.map(Peer::calls);
        let peer = peer.and_then(Peer::credentials);
        let span = tracing::info_span!(
            "rpc",
            service = method.service,
            method = method.name,
            id,
            uid = peer.map(|peer| peer.uid()),
            pid = peer.and_then(|peer| peer.pid()),
        );
        let listed = self.listed.add(InWork {
            method,
            id: id.to_owned(),
            pid: peer.and_then(|peer| peer.pid()),
            begun: std::time::Instant::now(),
        });
        let in_work = (in_work, listed);
        let slow_call = self.slow_call.read().filter(|_| !method.lasts_as_asked());
        let settling = method.takes_memory().then(|| Arc::clone(&self.settling));
        Call::begin(
            method,
            span,
            &self.metrics,
            slow_call,
            in_work,
            calling,
            settling,
        )
    }
}

/// Wraps a service in a [`CallService`].
#[derive(Debug, Clone)]
pub(crate) struct CallLayer(pub(crate) Arc<Policy>);

impl<S> Layer<S> for CallLayer {
    type Service = CallService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CallService {
            inner,
            policy: Arc::clone(&self.0),
        }
    }
}

/// A service that identifies, counts, logs and limits its calls, and responds even if a handler panics.
#[derive(Debug, Clone)]
pub(crate) struct CallService<S> {
    inner: S,
    policy: Arc<Policy>,
}

type CallFuture = Pin<Box<dyn Future<Output = Result<Response<CallBody>, Infallible>> + Send>>;

impl<S> Service<Request<Body>> for CallService<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Error: std::fmt::Display,
    S::Future: Send,
{
    type Response = Response<CallBody>;
    type Error = Infallible;
    type Future = CallFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Each call has its own clone, made ready before it is called.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let arrival = Arrival(std::time::Instant::now());
        request.extensions_mut().insert(arrival);
        let peer = request.extensions().get::<Peer>().cloned();
        if let Some(process) = peer.as_ref().and_then(Peer::process) {
            request.extensions_mut().insert(Caller(process));
        }
        let policy = Arc::clone(&self.policy);
        let inner = self.inner.clone();
        let id = request_id::of(request.headers());
        let mut call = policy.begin(&request, id.to_str().unwrap_or_default());
        let span = call.span().clone();
        // The deadline starts with the call: the library's timer starts later, and returns CANCELLED instead of
        // DEADLINE_EXCEEDED.
        let deadline = deadline(&request);
        let work = async move {
            let response = tokio::select! {
                biased;
                response = answer(inner, request, &policy) => response,
                status = expiry(deadline) => status.into_http(),
                never = watch(&call) => match never {},
            };
            if let Some(status) = Status::from_header_map(response.headers()) {
                call.ended(status.code(), status.message());
            }
            let (mut parts, body) = response.into_parts();
            parts.headers.insert(request_id::HEADER, id);
            let mut body = CallBody::new(body, call, policy);
            if let Some(peer) = &peer {
                body.weigh(peer).await;
            }
            Ok(Response::from_parts(parts, body))
        };
        Box::pin(work.instrument(span))
    }
}

/// Calls the service, or responds in its place.
async fn answer<S>(mut service: S, request: Request<Body>, policy: &Policy) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Error: std::fmt::Display,
{
    let _room = match policy.limits().admit().await {
        Ok(room) => room,
        Err(status) => return status.into_http(),
    };
    let work = async move {
        std::future::poll_fn(|context| service.poll_ready(context)).await?;
        service.call(request).await
    };
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => Status::internal(error.to_string()).into_http(),
        Err(_) => panicked().into_http(),
    }
}

/// Returns the status for a handler that panicked; details are in the log.
pub(super) fn panicked() -> Status {
    Status::new(
        Code::Internal,
        "the request handler panicked; this is a bug in orlop (see the log of the daemon)",
    )
}

/// Logs when the call has run for long. Never returns.
async fn watch(call: &Call) -> Infallible {
    if let Some(slow) = call.slow() {
        sleep(slow).await;
        call.still_going();
    }
    std::future::pending().await
}

struct Deadline {
    at: Instant,
    after: Duration,
}

fn deadline(request: &Request<Body>) -> Option<Deadline> {
    let after = timeout(request.headers().get("grpc-timeout")?.to_str().ok()?)?;
    Some(Deadline {
        at: Instant::now().checked_add(after)?,
        after,
    })
}

async fn expiry(deadline: Option<Deadline>) -> Status {
    let Some(Deadline { at, after }) = deadline else {
        return std::future::pending().await;
    };
    sleep_until(at).await;
    Status::deadline_exceeded(format!(
        "the call exceeded the deadline of the client ({after:?})"
    ))
}

/// Parses the timeout of the gRPC over HTTP/2 protocol: up to eight digits and a unit.
fn timeout(text: &str) -> Option<Duration> {
    let unit = text.chars().last().filter(char::is_ascii)?;
    let number = &text[..text.len() - 1];
    if number.is_empty() || number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_hours(number),
        'M' => Duration::from_mins(number),
        'S' => Duration::from_secs(number),
        'm' => Duration::from_millis(number),
        'u' => Duration::from_micros(number),
        'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_those_of_the_protocol() {
        assert_eq!(timeout("30S"), Some(Duration::from_secs(30)));
        assert_eq!(timeout("99999999H"), Some(Duration::from_hours(99_999_999)));
        assert_eq!(timeout("1m"), Some(Duration::from_millis(1)));
        for wrong in ["", "S", "1", "1s", "-1S", "123456789S", "1é"] {
            assert_eq!(timeout(wrong), None, "{wrong}");
        }
    }
}
