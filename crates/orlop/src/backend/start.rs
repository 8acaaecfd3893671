//! Starts the backend that the configuration names.

use anyhow::{Context as _, bail};
use orlop_cri::server::MessageLimits;
use orlop_cri::v1::image_service_server::ImageService;
use orlop_cri::v1::runtime_service_server::RuntimeService;
use orlop_engine::Engine;
use tonic::service::Routes;

use super::native::engine_config;
use crate::config::Config;
use crate::config::values::Backend;

/// A backend that runs.
pub(crate) struct Running {
    /// Its gRPC services.
    pub(crate) services: Routes,
    engine: Engine,
}

impl Running {
    /// Lets go of what the daemon holds; pods go on.
    pub(crate) async fn stop(self) {
        self.engine.stop().await;
    }
}

/// Starts the backend.
pub(crate) async fn start(config: &Config) -> anyhow::Result<Running> {
    let limit = config.grpc.max_message_size.get() as usize;
    let limits = MessageLimits {
        receive: limit,
        send: limit,
    };
    match config.daemon.backend {
        Backend::Native => {
            let engine = Engine::start(engine_config(config)?)
                .await
                .map_err(|error| anyhow::anyhow!(orlop_engine::chain(&*error)))
                .context("cannot start the native runtime")?;
            Ok(Running {
                services: routes(engine.clone(), limits)
                    .add_service(limits.images(engine.clone()))
                    .add_service(limits.networks(engine.clone()))
                    .add_service(limits.containers(engine.clone())),
                engine,
            })
        }
        Backend::Docker => bail!(
            "this build of orlop has no docker backend yet: remove `backend = \"docker\"` or \
             `--backend docker`"
        ),
    }
}

/// The two CRI services of one implementation.
fn routes<S>(service: S, limits: MessageLimits) -> Routes
where
    S: RuntimeService + ImageService + Clone,
{
    Routes::new(limits.runtime_service(service.clone())).add_service(limits.image_service(service))
}
