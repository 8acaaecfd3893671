//! What can be changed while the daemon runs.

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

/// The handle on a running daemon, for signals and the admin service.
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

/// What is told of changes.
pub(super) struct Parts {
    pub(super) levels: Levels,
    pub(super) policy: Arc<Policy>,
    pub(super) exporting: Arc<Exporting>,
    pub(super) pages: Arc<Pages>,
    pub(super) backend: Reconfigurable,
    pub(super) traced: Traced,
    /// Who can be asked what there is.
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

    /// The configuration in force.
    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.0.config.borrow())
    }

    /// Reads the configuration again and applies what can be applied. One with mistakes, or that can't be
    /// used, changes nothing. Goes on to its end if the caller leaves.
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

    /// What waits, or who holds memory, as JSON.
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

    /// Where the daemon's processor time goes for some seconds, as JSON. A daemon that stops ends it early.
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

/// What somebody looks at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Look {
    /// What is in work, and what it waits for.
    Tasks,
    /// Who holds memory.
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
            // Whatever may fail comes before anything is changed.
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
        // A level that somebody set by hand stays until the file says another.
        if old.log.level != rules.log.level {
            levels.set(&rules.log.level)?;
        }
        policy.set_slow_call(rules.log.slow_call.nonzero());
        // Calls in work count for those that were.
        let most = |config: &Config| (config.grpc.max_calls, config.grpc.max_streams);
        if most(&old) != most(&rules) {
            policy.set_limits(&rules.grpc);
        }
        let changes = changes(&old, &new);
        self.config.send_replace(rules);
        Ok(changes)
    }
}
