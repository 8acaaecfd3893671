//! Start of the backend that the configuration names.

use std::sync::Arc;

use anyhow::Context as _;
use orlop_cri_api::server::MessageLimits;
use orlop_cri_server::timeline::Traces;
use orlop_engine::Engine;
use prometheus_client::registry::Registry;
use tonic::service::Routes;

use super::docker;
use super::native::engine_config;
use super::services::routes;
use crate::config::Config;
use crate::config::values::Backend;
use crate::docker_shim::Shim;
use crate::metrics;

/// A running backend.
pub(crate) struct Running {
    /// Its gRPC services.
    pub(crate) services: Routes,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Native(Engine),
    Docker(Shim),
}

impl Running {
    /// Returns the backend for metrics and debug output.
    #[cfg_attr(
        not(feature = "docker"),
        expect(unreachable_code, reason = "there is no Docker backend to clone")
    )]
    pub(crate) fn seen(&self) -> metrics::Backend {
        match &self.kind {
            Kind::Native(engine) => metrics::Backend::Native(engine.clone()),
            Kind::Docker(shim) => metrics::Backend::Docker(shim.clone()),
        }
    }

    /// Returns the traces of pod starts.
    pub(crate) fn traces(&self) -> &Traces {
        match &self.kind {
            Kind::Native(engine) => engine.traces(),
            Kind::Docker(shim) => shim.traces(),
        }
    }

    /// Returns a handle that applies a new configuration.
    #[cfg_attr(
        not(feature = "docker"),
        expect(unreachable_code, reason = "there is no Docker backend to clone")
    )]
    pub(crate) fn reconfigurable(&self) -> Reconfigurable {
        Reconfigurable(match &self.kind {
            Kind::Native(engine) => Kind::Native(engine.clone()),
            Kind::Docker(shim) => Kind::Docker(shim.clone()),
        })
    }

    /// Releases the daemon's resources. Pods continue to run.
    pub(crate) async fn stop(self) {
        match self.kind {
            Kind::Native(engine) => engine.stop().await,
            Kind::Docker(shim) => shim.stop().await,
        }
    }
}

/// Handle that applies a new configuration to a running backend.
#[derive(Clone)]
pub(crate) struct Reconfigurable(Kind);

impl Reconfigurable {
    /// Applies a new configuration. On an error the backend keeps the old one.
    pub(crate) async fn reconfigure(&self, config: &Arc<Config>) -> anyhow::Result<()> {
        let engine = match &self.0 {
            Kind::Native(engine) => engine,
            Kind::Docker(shim) => {
                shim.keep_events(config.grpc.event_backlog.get());
                return Ok(());
            }
        };
        let reading = Arc::clone(config);
        let config = orlop_pool::blocking(move || engine_config(&reading)).await??;
        let done = engine.reconfigure(config).await;
        done.map_err(|error| anyhow::anyhow!(orlop_engine::chain(&*error)))
    }
}

/// Metrics of the backend.
pub(crate) struct Metrics(orlop_engine::Metrics);

impl Metrics {
    /// Registers the metrics of the configured backend.
    pub(crate) fn register(config: &Config, registry: &mut Registry) -> Self {
        let metrics = orlop_engine::Metrics::default();
        metrics.timeline.register(registry);
        if config.daemon.backend == Backend::Native {
            metrics.register(registry);
        }
        Self(metrics)
    }
}

/// Starts the backend.
pub(crate) async fn start(config: &Config, metrics: Metrics) -> anyhow::Result<Running> {
    let limit = config.grpc.max_message_size.get() as usize;
    let limits = MessageLimits {
        receive: limit,
        send: limit,
    };
    match config.daemon.backend {
        Backend::Native => {
            let engine = Engine::start(engine_config(config)?, metrics.0)
                .await
                .map_err(|error| anyhow::anyhow!(orlop_engine::chain(&*error)))
                .context("cannot start the native runtime")?;
            Ok(Running {
                services: routes(engine.clone(), limits)
                    .add_service(limits.images(engine.clone()))
                    .add_service(limits.networks(engine.clone()))
                    .add_service(limits.containers(engine.clone()))
                    .add_service(limits.inspection(engine.clone())),
                kind: Kind::Native(engine),
            })
        }
        Backend::Docker => {
            let (shim, services) = docker::start(config, metrics.0.timeline, limits).await?;
            Ok(Running {
                services,
                kind: Kind::Docker(shim),
            })
        }
    }
}
