//! The HTTP endpoint of metrics and health checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use orlop_listen::{AcceptLoop, Activity, Connection, HeadLimits, Listener, serve_http1};
use parking_lot::RwLock;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::engine::{Backend, DockerNames, EngineGauges, Running};
use super::entrance::{Channel, Guard, Refusal};
use super::health::Health;
use super::process::Process;
use crate::docker_shim;

/// State of the endpoint.
#[derive(Debug)]
pub(crate) struct Exporter {
    registry: Registry,
    health: Arc<Health>,
    engine: Running,
    guard: RwLock<Arc<Guard>>,
    docker_names: Arc<AtomicBool>,
}

impl Exporter {
    /// Exports the metrics of `registry` and of the process.
    pub(crate) fn new(mut registry: Registry, health: Arc<Health>, engine: Running) -> Self {
        registry.register_collector(Box::new(Process));
        registry.register_collector(Box::new(EngineGauges(Arc::clone(&engine))));
        let docker_names = Arc::default();
        registry.register_collector(Box::new(DockerNames {
            running: Arc::clone(&engine),
            wanted: Arc::clone(&docker_names),
        }));
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register(
            "orlop_build",
            "Build information of the running daemon",
            build,
        );
        Self {
            registry,
            health,
            engine,
            guard: RwLock::default(),
            docker_names,
        }
    }

    /// Replaces the access control.
    pub(crate) fn set_guard(&self, guard: Guard) {
        *self.guard.write() = Arc::new(guard);
    }

    /// Enables or disables the metric names of cri-dockerd.
    pub(crate) fn set_docker_names(&self, wanted: bool) {
        self.docker_names.store(wanted, Ordering::Relaxed);
    }

    /// Returns the response, or `None` if the Docker Engine must be queried. Blocks.
    fn respond(&self, method: &Method, path: &str) -> Option<Response<Full<Bytes>>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Some(plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET requests are supported\n",
            ));
        }
        Some(match path {
            "/metrics" => self.metrics(),
            "/healthz" => match self.health.check() {
                Ok(()) => plain(StatusCode::OK, "ok\n"),
                Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, why),
            },
            "/debug/state" => match self.engine.get() {
                None => plain(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
                Some(Backend::Native(engine)) => json(&engine.state()),
                Some(Backend::Docker(_)) => return None,
            },
            _ => plain(
                StatusCode::NOT_FOUND,
                "not found; the paths are /metrics, /healthz and /debug/state\n",
            ),
        })
    }

    /// Returns the state of the Docker Engine. It may be slow, so no thread blocks on it.
    async fn state_of_docker(&self) -> Response<Full<Bytes>> {
        let Some(Backend::Docker(shim)) = self.engine.get() else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "starting\n");
        };
        match timeout(ENGINE, docker_shim::state(shim)).await {
            Ok(Ok(state)) => json(&state),
            Err(_) => plain(
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "the Docker Engine did not report its images and containers within {ENGINE:?}\n"
                ),
            ),
            Ok(Err(error)) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
        }
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            return plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "cannot write the metrics\n",
            );
        }
        let mut response = Response::new(Full::from(text));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static(
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ),
        );
        response
    }
}

/// Maximum number of connections. A scraper holds one, so there are few.
const MAX_CONNECTIONS: usize = 16;

/// Timeout for an engine that hangs.
const ENGINE: Duration = Duration::from_secs(10);

const HEAD: HeadLimits = HeadLimits {
    time: Duration::from_secs(5),
    bytes: 16 << 10,
};

/// Serves until it is stopped.
pub(crate) async fn serve(listener: Listener, exporter: Arc<Exporter>, stop: CancellationToken) {
    let accepting = AcceptLoop::new("cannot accept a connection", MAX_CONNECTIONS);
    let each = |connection, activity| meet(connection, activity, Arc::clone(&exporter));
    accepting.run(listener, stop, each).await;
}

async fn meet(connection: Connection, activity: Activity, exporter: Arc<Exporter>) {
    let guard = Arc::clone(&exporter.guard.read());
    // Browsers do not connect to unix sockets for a page.
    let channel = match connection {
        Connection::Unix(_) => Channel::Unix,
        Connection::Tcp(_) => Channel::Tcp,
    };
    let Some(tls) = guard.tls.clone().filter(|_| channel == Channel::Tcp) else {
        return answer((connection, activity), channel, guard, exporter).await;
    };
    if let Some(stream) = tls.accept(connection).await {
        let shown = stream.get_ref().1.peer_certificates();
        let has_certificate = shown.is_some_and(|shown| !shown.is_empty());
        let channel = if has_certificate {
            Channel::Certificate
        } else {
            channel
        };
        answer((stream, activity), channel, guard, exporter).await;
    }
}

async fn answer(
    (stream, activity): (
        impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        Activity,
    ),
    channel: Channel,
    guard: Arc<Guard>,
    exporter: Arc<Exporter>,
) {
    let answer = |request: Request<Incoming>| {
        let (guard, exporter) = (Arc::clone(&guard), Arc::clone(&exporter));
        async move {
            let (head, _) = request.into_parts();
            let asked = Arc::clone(&exporter);
            // Collecting metrics reads files.
            let answer = orlop_pool::blocking(move || {
                match guard.check(channel, &head.uri, &head.headers) {
                    Ok(()) => exporter.respond(&head.method, head.uri.path()),
                    Err(refusal) => Some(refused(refusal)),
                }
            });
            match answer.await {
                Ok(Some(answer)) => answer,
                Ok(None) => asked.state_of_docker().await,
                Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "internal error\n"),
            }
        }
    };
    if let Err(error) = serve_http1(stream, HEAD, activity, answer).await {
        tracing::debug!(%error, "a connection to the metrics endpoint failed");
    }
}

fn refused(refusal: Refusal) -> Response<Full<Bytes>> {
    if refusal == Refusal::Host {
        return plain(
            StatusCode::MISDIRECTED_REQUEST,
            "the Host header is not a known name of this node; use an IP address, localhost or the \
             host name of the node, or add the name to metrics.names\n",
        );
    }
    let mut response = plain(
        StatusCode::UNAUTHORIZED,
        "authentication required; send the token of metrics.token_file, or a client certificate of \
         metrics.client_ca\n",
    );
    let kind = header::HeaderValue::from_static("Bearer");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, kind);
    response
}

fn json(state: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{state:#}\n")));
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}
