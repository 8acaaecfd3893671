//! State that all pulls share.

use std::sync::Arc;

use super::blob_locks::BlobLocks;
use crate::admission::{self, Asker};
use crate::lazy::Lazies;
use crate::registry::Transport;
use crate::store::Store;
use crate::turns::Turns;
use crate::{Config, Digest};

/// State that all pulls share.
pub(crate) struct Context {
    pub(crate) config: Config,
    /// Settings of the admission check.
    pub(crate) admission: admission::Settings,
    pub(crate) store: Arc<Store>,
    pub(crate) transport: Arc<Transport>,
    pub(crate) unpacks: Arc<Turns>,
    pub(crate) blob_locks: Arc<BlobLocks>,
    pub(crate) lazies: Arc<Lazies>,
}

impl Context {
    /// Returns the resolver for image names.
    pub(crate) fn asker(&self) -> Asker<'_> {
        // A check that outlives the drain of the calls must not keep the store open.
        let store = Arc::downgrade(&self.store);
        let here = Arc::new(move |digest: &Digest| match store.upgrade() {
            Some(store) => store.document(digest),
            None => Ok(None),
        });
        Asker {
            settings: &self.admission,
            transport: &self.transport,
            platform: &self.config.platform,
            here: Some(here),
        }
    }
}
