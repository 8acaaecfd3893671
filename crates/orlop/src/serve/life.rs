//! The life of a daemon:
//!
//! ```text
//! starting ── sockets open, backend up ──► serving ── SIGTERM ──► draining ──► end
//!                                           │   ▲                    │
//!                                           └───┘ SIGHUP: reload     └─ second SIGTERM, or
//!                                                                       drain_timeout: end
//! ```

use std::sync::Arc;
use std::time::Duration;

use orlop_cri::server::V1Alpha2Layer;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::admin::{Admin, describe};
use super::control::Control;
use super::endpoints::Endpoints;
use super::signals::{Signals, Wish};
use super::watchdog;
use crate::backend;
use crate::config::{Config, Grpc, Location, Overrides};
use crate::listen::incoming;
use crate::log::Levels;
use crate::metrics::{CallMetrics, Exporter, Health, serve as serve_metrics};
use crate::rpc::{CallLayer, Policy};
use crate::service_manager::{Inherited, Notifier, State};

/// What a daemon starts its life with.
pub(super) struct Daemon {
    pub(super) location: Location,
    pub(super) overrides: Overrides,
    pub(super) config: Config,
    pub(super) levels: Levels,
    pub(super) inherited: Inherited,
}

/// Serves until a signal ends it.
pub(super) async fn live(daemon: Daemon) -> anyhow::Result<()> {
    let Daemon {
        location,
        overrides,
        config,
        levels,
        inherited,
    } = daemon;
    let Inherited {
        sockets,
        notifier,
        watchdog,
        ..
    } = inherited;
    let mut signals = Signals::listen()?;
    let endpoints = Endpoints::open(&config, sockets)?;

    let mut registry = Registry::default();
    let metrics = CallMetrics::new(&mut registry);
    let health = Arc::new(Health::default());
    let stop = CancellationToken::new();
    let policy = Policy::new(
        &config.grpc,
        config.log.slow_call.nonzero(),
        metrics,
        stop.clone(),
    );
    let policy = Arc::new(policy);

    let exporter = Arc::new(Exporter::new(registry, Arc::clone(&health)));
    let exported = endpoints.metrics.map(|listener| {
        tracing::info!(address = listener.address(), "serving metrics");
        // Answers while the daemon drains: it is then that somebody looks.
        let ended = CancellationToken::new();
        let task = tokio::spawn(serve_metrics(listener, exporter, ended.clone()));
        (task, ended.drop_guard())
    });

    let config = Arc::new(config);
    let sender = watch::Sender::new(Arc::clone(&config));
    let services = backend::start(&config).await?;
    let control = Control::new(location, overrides, levels, Arc::clone(&policy), sender);
    let services = services.add_service(Admin(control.clone()));

    for listener in &endpoints.grpc {
        tracing::info!(address = listener.address(), "serving the CRI");
    }
    let connections = incoming(endpoints.grpc, config.grpc.max_connections.get() as usize);
    let server = server(&config.grpc)
        .layer(CallLayer(Arc::clone(&policy)))
        .layer(V1Alpha2Layer)
        .add_routes(services.prepare());
    let stopped = stop.clone().cancelled_owned();
    let serving = tokio::spawn(server.serve_with_incoming_shutdown(connections, stopped));
    health.serving();
    notifier.tell(State::Ready);

    tokio::select! {
        () = heed(&mut signals, &control, &notifier) => {}
        () = watchdog::report(notifier.clone(), watchdog) => {}
    }

    tracing::info!("the daemon stops: finishing the calls in work");
    health.stopping();
    notifier.tell(State::Stopping);
    stop.cancel();
    drain(serving, &policy, &mut signals, &control.config().grpc).await;
    if let Some((task, ended)) = exported {
        drop(ended);
        let _ = task.await;
    }
    tracing::info!("the daemon ends; pods go on");
    Ok(())
}

/// The gRPC server, before its services.
fn server(grpc: &Grpc) -> Server {
    // Lists of thousands of containers come in one window instead of sixteen.
    const WINDOW: u32 = 1 << 20;
    Server::builder()
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(2 * WINDOW)
        .max_concurrent_streams(grpc.max_calls_per_connection.get())
        .http2_keepalive_interval(grpc.keepalive.nonzero())
        .http2_keepalive_timeout(Some(grpc.keepalive_timeout.get()))
}

/// Does what signals ask for, until one asks to stop.
async fn heed(signals: &mut Signals, control: &Control, notifier: &Notifier) {
    while signals.next().await == Wish::Reload {
        notifier.tell(State::Reloading);
        let reloading = control.clone();
        match spawn_blocking(move || reloading.reload()).await {
            Ok(Ok(changes)) => tracing::info!("configuration read: {}", describe(&changes)),
            Ok(Err(error)) => tracing::error!("the old configuration stays in force: {error:#}"),
            Err(error) => tracing::error!(%error, "reading the configuration broke"),
        }
        notifier.tell(State::Ready);
    }
}

/// Lets the calls in work end, but not for ever.
async fn drain(
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
    policy: &Policy,
    signals: &mut Signals,
    grpc: &Grpc,
) {
    // The last bytes on their way to clients. Connections end sooner where clients
    // close them; one that does not listen is not waited for.
    const FLUSH: Duration = Duration::from_millis(250);
    let quiet = async {
        policy.quiet().await;
        sleep(FLUSH).await;
    };
    let abort = serving.abort_handle();
    let hurry = async { while signals.next().await != Wish::Stop {} };
    tokio::select! {
        ended = timeout(grpc.drain_timeout.get(), serving) => match ended {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => return tracing::error!(%error, "the gRPC server failed"),
            Ok(Err(error)) => return tracing::error!(%error, "the gRPC server broke"),
            Err(_) => tracing::warn!("calls are still in work, they are cut off"),
        },
        () = quiet => {}
        () = hurry => tracing::warn!("told to stop again: calls in work are cut off"),
    }
    abort.abort();
}
