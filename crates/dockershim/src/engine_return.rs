//! Waits for the Docker Engine to come back after an outage.

use tokio::sync::watch;

/// Counts how often the engine has come back. Cheap to clone; all clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct EngineReturn(watch::Sender<u64>);

impl EngineReturn {
    /// Waits until the engine is reachable again after an outage.
    pub(crate) async fn wait(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().changed().await;
    }

    /// Wakes the waiting tasks.
    pub(crate) fn tell(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}
