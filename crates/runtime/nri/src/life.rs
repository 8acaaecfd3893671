//! Start, reconfiguration and stop of the runtime's side.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use orlop_listen::SocketFile;
use tokio::net::UnixListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Listen};
use crate::nri::Nri;
use crate::runtime::Runtime;
use crate::{launch, listen};

/// Time limit for plugins to answer the shutdown request.
const FAREWELL: Duration = Duration::from_millis(500);

/// Time limit for background tasks to end.
const LAST_WORK: Duration = Duration::from_secs(2);

/// A bound socket that accepts no connections yet, if the new configuration has another path.
#[derive(Debug)]
pub struct Prepared(Option<(UnixListener, SocketFile)>);

impl Nri {
    /// Starts the plugins of this node, waits for them, and lets others connect.
    pub async fn start(&self, runtime: Arc<dyn Runtime>) {
        let _ = self.0.runtime.set(runtime);
        self.bring_up(Prepared(None)).await;
    }

    /// Binds the socket of a new configuration, if its path differs.
    pub async fn prepare(&self, config: Option<&Config>) -> std::io::Result<Prepared> {
        let place = |config: &Config| match &config.listen {
            Listen::At(path) => Some(path.clone()),
            Listen::Never => None,
        };
        let now = self.config().and_then(|config| place(&config));
        let Some(wanted) = config.and_then(place).filter(|it| now.as_ref() != Some(it)) else {
            return Ok(Prepared(None));
        };
        let bound = orlop_pool::blocking(move || listen::bind(&wanted)).await;
        Ok(Prepared(Some(bound.map_err(std::io::Error::other)??)))
    }

    /// Applies a new configuration. If more than the validator's rules differ, all plugins are shut down, and connect
    /// or are started again. No containers are created meanwhile.
    pub async fn reconfigure(&self, config: Option<Config>, prepared: Prepared) {
        let old = self.config();
        let same = match (old.as_deref(), &config) {
            (Some(old), Some(new)) => old.is_but_for_rules(new),
            (None, None) => true,
            _ => false,
        };
        let config = config.map(Arc::new);
        if same {
            *self.0.config.write() = config;
            self.count(&self.plugins());
            return;
        }
        // An operation that hangs must not block the reconfiguration.
        let _alone = timeout(LAST_WORK, self.0.changing.write()).await;
        self.stop().await;
        *self.0.config.write() = config;
        *self.0.stopping.lock() = CancellationToken::new();
        self.0.tasks.reopen();
        // Apply settings that also hold without plugins, such as required plugins.
        self.count(&self.plugins());
        if self.0.runtime.get().is_some() {
            self.bring_up(prepared).await;
        }
    }

    async fn bring_up(&self, Prepared(socket): Prepared) {
        let Some(config) = self.config() else { return };
        launch::launch(self).await;
        if let Listen::At(path) = &config.listen {
            let at = path.clone();
            let bound = match socket {
                Some(socket) => Ok(Ok(socket)),
                None => orlop_pool::blocking(move || listen::bind(&at)).await,
            };
            match bound {
                Ok(Ok((listener, file))) => {
                    *self.0.socket.lock() = Some(file);
                    let stop = self.0.stopping.lock().clone();
                    let accepting = listen::accept(self.clone(), listener, stop);
                    self.0.tasks.spawn(accepting);
                }
                Ok(Err(error)) => tracing::warn!(
                    path = %path.display(), %error,
                    "NRI plugins cannot connect; set nri.socket to another path, or \
                     nri.external_connections to false"
                ),
                Err(_) => {}
            }
        }
    }

    /// Shuts down all plugins, and stops those that the runtime started.
    pub async fn stop(&self) {
        drop(self.0.socket.lock().take());
        self.0.stopping.lock().cancel();
        let plugins = std::mem::take(&mut *self.plugins());
        self.0.wanted.store(0, Ordering::Release);
        let farewells = plugins.iter().map(|plugin| async move {
            let _ = plugin.call::<()>("Shutdown", &(), FAREWELL).await;
            plugin.connection.close("the runtime is shutting down");
        });
        join_all(farewells).await;
        self.0.tasks.close();
        let _ = timeout(LAST_WORK, self.0.tasks.wait()).await;
    }
}
