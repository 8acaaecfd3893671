//! State that all connections of a server share.

use std::sync::Arc;

use orlop_listen::Tls;
use parking_lot::RwLock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::tokens::Tokens;
use crate::session::Backend;

/// State that all connections share.
pub(crate) struct Context {
    pub(super) now: RwLock<Now>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) stop: CancellationToken,
    /// Permits for sessions.
    pub(crate) sessions: Arc<Semaphore>,
}

/// The settings for new connections, which can be changed at run time.
pub(super) struct Now {
    pub(super) config: Arc<Config>,
    pub(super) tls: Option<Arc<Tls>>,
}

impl Context {
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.now.read().config)
    }
}
