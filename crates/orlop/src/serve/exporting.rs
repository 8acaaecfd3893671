//! The metrics endpoint. It also responds while the daemon drains, as that is when an administrator looks.

use std::sync::Arc;

use anyhow::Context as _;
use orlop_listen::Listener;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::endpoints::{Endpoints, MetricsSocket};
use crate::config::Config;
use crate::metrics::{Exporter, Guard, serve};

/// The metrics endpoint, whose address can change at a reload.
pub(super) struct Exporting {
    exporter: Arc<Exporter>,
    /// A socket of the service manager stays, whatever the configuration says.
    is_managed: bool,
    now: Mutex<Option<Served>>,
}

struct Served {
    task: JoinHandle<()>,
    stop: DropGuard,
}

impl Exporting {
    pub(super) fn start(
        config: &Config,
        socket: MetricsSocket,
        exporter: Exporter,
    ) -> anyhow::Result<Self> {
        exporter.set_guard(guard_of(config)?);
        exporter.set_docker_names(config.metrics.docker_names);
        let exporting = Self {
            exporter: Arc::new(exporter),
            is_managed: socket.is_managed,
            now: Mutex::default(),
        };
        exporting.serve_at(socket.listener);
        Ok(exporting)
    }

    /// Prepares the change to a new configuration. `None` if nothing changes. Blocks on the file system.
    pub(super) fn prepare(&self, old: &Config, new: &Config) -> anyhow::Result<Option<Moving>> {
        if old.metrics == new.metrics {
            return Ok(None);
        }
        let guard = guard_of(new)?;
        let stays = self.is_managed || old.metrics.listen == new.metrics.listen;
        let elsewhere = if stays {
            Place::Same
        } else {
            Place::Other(Endpoints::metrics_of(new)?)
        };
        Ok(Some(Moving {
            guard,
            elsewhere,
            docker_names: new.metrics.docker_names,
        }))
    }

    /// Applies a prepared change.
    pub(super) async fn move_to(&self, moving: Moving) {
        let Moving {
            guard,
            elsewhere,
            docker_names,
        } = moving;
        self.exporter.set_docker_names(docker_names);
        // Each connection is checked by the access rules of its own listener.
        if let Place::Other(listener) = elsewhere {
            self.finish().await;
            self.exporter.set_guard(guard);
            self.serve_at(listener);
        } else {
            self.exporter.set_guard(guard);
        }
    }

    /// Stops the endpoint after the pending responses are sent.
    pub(super) async fn finish(&self) {
        let served = self.now.lock().take();
        if let Some(Served { task, stop }) = served {
            drop(stop);
            let _ = task.await;
        }
    }

    fn serve_at(&self, listener: Option<Listener>) {
        let served = listener.map(|listener| {
            tracing::info!(address = listener.address(), "serving metrics");
            let stop = CancellationToken::new();
            let serving = serve(listener, Arc::clone(&self.exporter), stop.clone());
            Served {
                task: tokio::spawn(serving),
                stop: stop.drop_guard(),
            }
        });
        *self.now.lock() = served;
    }
}

/// The new access rules, and the new socket, which listens but is not served yet.
pub(super) struct Moving {
    guard: Guard,
    elsewhere: Place,
    docker_names: bool,
}

/// Address of the endpoint after a reload.
enum Place {
    /// Unchanged.
    Same,
    /// A new listener, or none.
    Other(Option<Listener>),
}

/// Creates the access control. Blocks on files.
fn guard_of(config: &Config) -> anyhow::Result<Guard> {
    Guard::of(&config.metrics).context("cannot serve metrics")
}
