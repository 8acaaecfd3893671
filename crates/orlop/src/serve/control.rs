//! Changes to a running daemon.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::{Mutex, watch};

use super::debug::{memory, tasks};
use super::exporting::Exporting;
use super::pages::Pages;
use crate::backend::Reconfigurable;
use crate::config::values::LevelFilter;
use crate::config::{Changes, Config, Flags, Location, changes, load, reloaded};
use crate::log::Levels;
use crate::metrics::Running;
use crate::otlp::{Collector, Traced};
use crate::profile::record;
use crate::rpc::Policy;

/// Handle on a running daemon, for signals and the admin service.
#[derive(Clone)]
pub(super) struct Control(Arc<Inner>);

struct Inner {
    location: Location,
    flags: Flags,
    parts: Parts,
    config: watch::Sender<Arc<Config>>,
    /// One reload at a time.
    reloading: Mutex<()>,
}

/// The parts of the daemon that a reload changes.
pub(super) struct Parts {
    pub(super) levels: Levels,
    pub(super) policy: Arc<Policy>,
    pub(super) exporting: Arc<Exporting>,
    pub(super) pages: Arc<Pages>,
    pub(super) backend: Reconfigurable,
    pub(super) traced: Traced,
    /// The backend for diagnostics.
    pub(super) seen: Running,
}

impl Control {
    pub(super) fn new(
        location: Location,
        flags: Flags,
        parts: Parts,
        config: watch::Sender<Arc<Config>>,
    ) -> Self {
        Self(Arc::new(Inner {
            location,
            flags,
            parts,
            config,
            reloading: Mutex::default(),
        }))
    }

    /// Returns the active configuration.
    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.0.config.borrow())
    }

    /// Reloads the configuration and applies the keys that need no restart. An invalid configuration changes nothing.
    /// The reload completes even if the caller is dropped.
    pub(super) async fn reload(&self) -> anyhow::Result<Changes> {
        let inner = Arc::clone(&self.0);
        let reloading = tokio::spawn(async move { inner.reload().await });
        reloading
            .await
            .context("reading the configuration failed")?
    }

    /// Sends the last traces.
    pub(super) async fn finish_traces(&self) {
        self.0.parts.traced.finish().await;
    }

    /// Returns the running tasks or the memory usage, as JSON.
    pub(super) async fn look(&self, at: Look) -> anyhow::Result<String> {
        let inner = Arc::clone(&self.0);
        let looking = orlop_pool::blocking(move || {
            let (policy, backend) = (&inner.parts.policy, inner.parts.seen.get());
            match at {
                Look::Tasks => tasks(policy, backend),
                Look::Memory => memory(policy, backend),
            }
        });
        Ok(looking.await?.to_string())
    }

    /// Records a CPU profile for some seconds, as JSON. It ends early if the daemon stops.
    pub(super) async fn profile(&self, seconds: u64) -> anyhow::Result<String> {
        let profile = record(seconds, self.0.parts.policy.closing()).await?;
        Ok(serde_json::to_string(&profile)?)
    }

    pub(super) fn log_level(&self) -> LevelFilter {
        self.0.parts.levels.get()
    }

    pub(super) fn set_log_level(&self, level: &LevelFilter) -> anyhow::Result<()> {
        self.0.parts.levels.set(level)
    }
}

/// The subject of a diagnostic request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Look {
    /// Running work, and what it waits for.
    Tasks,
    /// Memory usage.
    Memory,
}

impl Inner {
    async fn reload(self: Arc<Self>) -> anyhow::Result<Changes> {
        let _alone = self.reloading.lock().await;
        let old = Arc::clone(&self.config.borrow());
        let (reading, before) = (Arc::clone(&self), Arc::clone(&old));
        let read = move || -> anyhow::Result<_> {
            let new = load(&reading.location, &reading.flags)?.config;
            let rules = reloaded(&before, &new).map_err(anyhow::Error::msg)?;
            let rules = Arc::new(rules);
            // All fallible steps come before the first change.
            let moving = reading.parts.exporting.prepare(&before, &rules)?;
            let page = reading.parts.pages.prepare(&before, &rules)?;
            let collector = Collector::of(&rules.traces)?;
            Ok((new, rules, moving, page, collector))
        };
        let (new, rules, moving, page, collector) = orlop_pool::blocking(read).await??;
        let Parts {
            levels,
            policy,
            exporting,
            pages,
            backend,
            traced,
            ..
        } = &self.parts;
        backend.reconfigure(&rules).await?;
        if let Some(moving) = moving {
            exporting.move_to(moving).await;
        }
        if let Some(page) = page {
            pages.move_to(page).await;
        }
        traced.send_to(collector, &rules.traces);
        // A level set at run time stays until the file changes the level.
        if old.log.level != rules.log.level {
            levels.set(&rules.log.level)?;
        }
        policy.set_slow_call(rules.log.slow_call.nonzero());
        // Running calls count against the new limits.
        let most = |config: &Config| (config.grpc.max_calls, config.grpc.max_streams);
        if most(&old) != most(&rules) {
            policy.set_limits(&rules.grpc);
        }
        let changes = changes(&old, &new);
        self.config.send_replace(rules);
        Ok(changes)
    }
}
