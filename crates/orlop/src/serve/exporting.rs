//! The metrics endpoint. It answers while the daemon drains, too: it is then that somebody looks.

use std::sync::Arc;

use orlop_door::Listener;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::endpoints::{Endpoints, MetricsSocket};
use crate::config::Config;
use crate::metrics::{Exporter, serve};

/// The endpoint, which moves where the configuration says so.
pub(super) struct Exporting {
    exporter: Arc<Exporter>,
    /// The service manager's socket stays whatever the configuration says.
    is_managed: bool,
    now: Mutex<Option<Served>>,
}

struct Served {
    task: JoinHandle<()>,
    stop: DropGuard,
}

impl Exporting {
    pub(super) fn start(socket: MetricsSocket, exporter: Exporter) -> Self {
        let exporting = Self {
            exporter: Arc::new(exporter),
            is_managed: socket.is_managed,
            now: Mutex::default(),
        };
        exporting.serve_at(socket.listener);
        exporting
    }

    /// Gets ready to move to where a new configuration wants it. Nothing where that is where it is. Blocks
    /// on the file system.
    pub(super) fn prepare(&self, old: &Config, new: &Config) -> anyhow::Result<Option<Moving>> {
        if self.is_managed || old.metrics.listen == new.metrics.listen {
            return Ok(None);
        }
        Ok(Some(Moving(Endpoints::metrics_of(new)?)))
    }

    /// Moves there.
    pub(super) async fn move_to(&self, Moving(listener): Moving) {
        self.finish().await;
        self.serve_at(listener);
    }

    /// Ends once those who ask have their answer.
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

/// A socket that is listened on, and not yet served.
pub(super) struct Moving(Option<Listener>);
