//! Locks of blobs that are being downloaded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Digest;

/// Locks of blobs that are being fetched. All pulls share one fetch of a blob per source, so that a pull from another
/// registry does not wait for a slow one.
#[derive(Default)]
pub(crate) struct BlobLocks(Mutex<HashMap<(Digest, String), Lock>>);

type Lock = Arc<tokio::sync::Mutex<()>>;

impl BlobLocks {
    /// Waits until no other task fetches this blob from this source.
    pub(super) async fn lock(
        &self,
        digest: Digest,
        source: &str,
    ) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock();
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry((digest, source.to_owned())).or_default())
        };
        lock.lock_owned().await
    }

    /// Returns the blobs that are being fetched.
    pub(crate) fn in_use(&self) -> HashSet<Digest> {
        let locks = self.0.lock();
        locks
            .iter()
            .filter(|(_, lock)| Arc::strong_count(lock) > 1)
            .map(|((digest, _), _)| *digest)
            .collect()
    }
}
