//! What can be changed while the daemon runs.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::config::values::LevelFilter;
use crate::config::{Changes, Config, Flags, Location, changes, load};
use crate::log::Levels;
use crate::rpc::Policy;

/// The handle on a running daemon, for signals and the admin service.
#[derive(Debug, Clone)]
pub(super) struct Control(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    location: Location,
    flags: Flags,
    levels: Levels,
    policy: Arc<Policy>,
    config: watch::Sender<Arc<Config>>,
    /// One reload at a time.
    reloading: Mutex<()>,
}

impl Control {
    pub(super) fn new(
        location: Location,
        flags: Flags,
        levels: Levels,
        policy: Arc<Policy>,
        config: watch::Sender<Arc<Config>>,
    ) -> Self {
        let reloading = Mutex::new(());
        Self(Arc::new(Inner {
            location,
            flags,
            levels,
            policy,
            config,
            reloading,
        }))
    }

    /// The configuration in force.
    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.0.config.borrow())
    }

    /// Reads the configuration again and applies what can be applied. One with
    /// mistakes changes nothing. Reads files, so not for the reactor.
    pub(super) fn reload(&self) -> anyhow::Result<Changes> {
        let inner = &self.0;
        let _alone = inner.reloading.lock();
        let new = load(&inner.location, &inner.flags)?.config;
        let old = self.config();
        let changes = changes(&old, &new);
        // A level that somebody set by hand stays until the file says another.
        if old.log.level != new.log.level {
            inner.levels.set(&new.log.level)?;
        }
        inner.policy.set_slow_call(new.log.slow_call.nonzero());
        inner.config.send_replace(Arc::new(new));
        Ok(changes)
    }

    pub(super) fn log_level(&self) -> LevelFilter {
        self.0.levels.get()
    }

    pub(super) fn set_log_level(&self, level: &LevelFilter) -> anyhow::Result<()> {
        self.0.levels.set(level)
    }
}
