//! Waits for the Docker Engine to come back after an outage.

use tokio::sync::watch;

/// How often the engine has come back. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct EngineReturn(watch::Sender<u64>);

impl EngineReturn {
    /// Waits until the engine is there again after it was away.
    pub(crate) async fn wait(&self) {
        // The sender lives as long as this does.
        let _ = self.0.subscribe().changed().await;
    }

    /// Tells those who wait.
    pub(crate) fn tell(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}
