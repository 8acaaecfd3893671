//! What the service was told, which changes while it runs.

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::Config;

/// The configuration in force.
#[derive(Debug)]
pub struct Settings(watch::Sender<Arc<Config>>);

impl Settings {
    /// That of the start.
    pub fn new(config: Config) -> Self {
        Self(watch::Sender::new(Arc::new(config)))
    }

    /// As it is now.
    pub fn now(&self) -> Arc<Config> {
        Arc::clone(&self.0.borrow())
    }

    /// Tells of all that come after this.
    pub fn changes(&self) -> watch::Receiver<Arc<Config>> {
        self.0.subscribe()
    }

    /// From now on.
    pub fn replace(&self, config: Config) {
        self.0.send_replace(Arc::new(config));
    }
}
