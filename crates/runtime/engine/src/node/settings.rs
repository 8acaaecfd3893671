//! The current configuration, which can change at run time.

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::Config;

/// The configuration in force.
#[derive(Debug)]
pub struct Settings(watch::Sender<Arc<Config>>);

impl Settings {
    /// Starts with the configuration of the daemon's start.
    pub fn new(config: Config) -> Self {
        Self(watch::Sender::new(Arc::new(config)))
    }

    /// Returns the current configuration.
    pub fn now(&self) -> Arc<Config> {
        Arc::clone(&self.0.borrow())
    }

    /// Returns a receiver of later configurations.
    pub fn changes(&self) -> watch::Receiver<Arc<Config>> {
        self.0.subscribe()
    }

    /// Replaces the configuration.
    pub fn replace(&self, config: Config) {
        self.0.send_replace(Arc::new(config));
    }
}
