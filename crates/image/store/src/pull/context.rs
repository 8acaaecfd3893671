//! State that all pulls share.

use std::sync::Arc;

use super::blob_locks::BlobLocks;
use crate::admission::{self, Asker};
use crate::lazy::Lazies;
use crate::registry::Transport;
use crate::store::Store;
use crate::turns::Turns;
use crate::{Config, Digest};

/// What every pull shares.
pub(crate) struct Context {
    pub(crate) config: Config,
    /// The part of the configuration that decides on images.
    pub(crate) admission: admission::Settings,
    pub(crate) store: Arc<Store>,
    pub(crate) transport: Arc<Transport>,
    pub(crate) unpacks: Arc<Turns>,
    pub(crate) blob_locks: Arc<BlobLocks>,
    pub(crate) lazies: Arc<Lazies>,
}

impl Context {
    /// Whom to ask what a name means.
    pub(crate) fn asker(&self) -> Asker<'_> {
        let store = Arc::clone(&self.store);
        let here = Arc::new(move |digest: &Digest| store.document(digest));
        Asker {
            settings: &self.admission,
            transport: &self.transport,
            platform: &self.config.platform,
            here: Some(here),
        }
    }
}
