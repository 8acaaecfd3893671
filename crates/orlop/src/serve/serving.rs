//! Assembly of all parts of a running daemon.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use orlop_cri_api::server::V1Alpha2Layer;
use orlop_listen::{ConnectionLimits, Connections, Listener};
use orlop_sandbox_api::{Controller, ControllerServer, Sandboxes, Store, StoreServer};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;

use super::admin::Admin;
use super::control::{Control, Parts};
use super::endpoints::Endpoints;
use super::exporting::Exporting;
use super::incoming::incoming;
use super::pages::Pages;
use crate::backend::{self, Running};
use crate::config::{Config, Flags, Grpc, Location};
use crate::log::Levels;
use crate::metrics::{self, Exporter, Health};
use crate::otlp::Traced;
use crate::rpc::{CallLayer, CallMetrics, Policy};
use crate::service_manager::Socket;

/// Parameters for the start of a daemon.
pub(super) struct Beginning {
    pub(super) location: Location,
    pub(super) flags: Flags,
    pub(super) config: Config,
    pub(super) levels: Levels,
    pub(super) sockets: Vec<Socket>,
}

/// A running daemon.
pub(super) struct Serving {
    pub(super) control: Control,
    policy: Arc<Policy>,
    health: Arc<Health>,
    /// Stops accepting and ends streams.
    stop: CancellationToken,
    /// Accepted connections without a first call.
    newcomers: TaskTracker,
    /// Asks clients to close their connections (GOAWAY).
    farewell: CancellationToken,
    server: JoinHandle<Served>,
    exporting: Arc<Exporting>,
    pages: Arc<Pages>,
    backend: Running,
}

/// Result of the gRPC server.
type Served = Result<(), tonic::transport::Error>;

impl Serving {
    /// Opens the sockets, starts the backend and serves.
    pub(super) async fn start(beginning: Beginning) -> anyhow::Result<Self> {
        let Beginning {
            location,
            flags,
            config,
            levels,
            sockets,
        } = beginning;
        // First of all, so that clients that call while the backend starts wait instead of failing.
        let endpoints = Endpoints::open(&config, sockets)?;

        let mut registry = Registry::default();
        let calls = CallMetrics::new(&mut registry);
        let health = Arc::new(Health::default());
        let backend_metrics = backend::Metrics::register(&config, &mut registry);
        let engine = metrics::Running::default();
        let exporter = Exporter::new(registry, Arc::clone(&health), Arc::clone(&engine));
        let exporting = Arc::new(Exporting::start(&config, endpoints.metrics, exporter)?);

        let stop = CancellationToken::new();
        let slow_call = config.log.slow_call.nonzero();
        let policy = Arc::new(Policy::new(&config.grpc, slow_call, calls, stop.clone()));
        let config = Arc::new(config);
        let backend = backend::start(&config, backend_metrics).await?;
        // It is set only here, so it cannot fail.
        let _ = engine.set(backend.seen());
        let traced = Traced::start(&config.traces, backend.traces())?;
        let sender = watch::Sender::new(Arc::clone(&config));
        let own = endpoints.grpc.first().map(Listener::address);
        let own = own.unwrap_or_default();
        let pages = Arc::new(Pages::start(&own, sender.subscribe())?);
        let parts = Parts {
            levels,
            policy: Arc::clone(&policy),
            exporting: Arc::clone(&exporting),
            pages: Arc::clone(&pages),
            backend: backend.reconfigurable(),
            traced,
            seen: Arc::clone(&engine),
        };
        let control = Control::new(location, flags, parts, sender);
        let services = backend.services.clone();
        let services = services.add_service(Admin(control.clone()));
        // For containerd, if orlop makes its sandboxes.
        let sandboxes = Sandboxes::new(&control.config().daemon.state.join("sandboxes"));
        let kept = control.config().daemon.root.join("sandboxes");
        let services = services
            .add_service(ControllerServer::new(Controller::new(sandboxes)))
            .add_service(StoreServer::new(Store::new(&kept)));

        for listener in &endpoints.grpc {
            tracing::info!(address = listener.address(), "serving the CRI");
        }
        let most = config.grpc.max_connections.get() as usize;
        let connections = Connections::new(ConnectionLimits::of(most));
        let newcomers = connections.newcomers().clone();
        let connections = incoming(endpoints.grpc, connections, stop.clone());
        let server = server(&config.grpc)
            .layer(CallLayer(Arc::clone(&policy)))
            .layer(V1Alpha2Layer)
            .add_routes(services.prepare());
        let farewell = CancellationToken::new();
        let leave = farewell.clone().cancelled_owned();
        let server = tokio::spawn(server.serve_with_incoming_shutdown(connections, leave));
        health.serving();
        Ok(Self {
            control,
            policy,
            health,
            stop,
            newcomers,
            farewell,
            server,
            exporting,
            pages,
            backend,
        })
    }

    /// Returns only if the server fails, with the reason.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        let ended = (&mut self.server).await;
        served(ended)
            .err()
            .unwrap_or_else(|| anyhow!("the gRPC server exited unexpectedly"))
    }

    /// Accepts no more calls, waits for the running calls until `hurry` resolves, and stops the daemon.
    pub(super) async fn finish(mut self, hurry: impl Future<Output = ()>) -> anyhow::Result<()> {
        let drain_timeout = self.control.config().grpc.drain_timeout.get();
        self.health.stopping();
        self.stop.cancel();
        let mut outcome = Ok(());
        tokio::select! {
            ended = &mut self.server => outcome = served(ended),
            () = quiet(&self.newcomers, &self.farewell, &self.policy) => {}
            () = sleep(drain_timeout) => {
                tracing::warn!("cancelling the calls that are still running");
            }
            () = hurry => tracing::warn!(
                "received a second stop signal; cancelling the running calls"),
        }
        self.server.abort();
        self.pages.finish().await;
        self.backend.stop().await;
        self.control.finish_traces().await;
        self.exporting.finish().await;
        outcome
    }
}

fn served(ended: Result<Served, JoinError>) -> anyhow::Result<()> {
    ended
        .context("the gRPC server panicked")?
        .context("the gRPC server failed")
}

/// Waits until no call is running and the last bytes can have reached the clients. It does not wait for clients to
/// close their connections.
async fn quiet(newcomers: &TaskTracker, farewell: &CancellationToken, policy: &Policy) {
    // A client of an accepted connection is about to send its first call.
    const FIRST_CALL: Duration = Duration::from_secs(1);
    const FLUSH: Duration = Duration::from_millis(250);
    newcomers.close();
    let _ = timeout(FIRST_CALL, newcomers.wait()).await;
    farewell.cancel();
    policy.quiet().await;
    sleep(FLUSH).await;
}

/// Builds the gRPC server without its services.
pub(super) fn server(grpc: &Grpc) -> Server {
    // Lists of thousands of containers fit into one window instead of sixteen.
    const WINDOW: u32 = 1 << 20;
    Server::builder()
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(2 * WINDOW)
        .max_concurrent_streams(grpc.max_calls_per_connection.get())
        .http2_keepalive_interval(grpc.keepalive.nonzero())
        .http2_keepalive_timeout(Some(grpc.keepalive_timeout.get()))
}
