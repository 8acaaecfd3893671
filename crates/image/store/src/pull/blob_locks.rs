//! Locks of blobs that are being downloaded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Digest;

/// Blobs that are being fetched. Each is fetched once from one source, whoever wants it: who has
/// it from another registry doesn't wait for a slow one.
#[derive(Default)]
pub(crate) struct BlobLocks(Mutex<HashMap<(Digest, String), Lock>>);

type Lock = Arc<tokio::sync::Mutex<()>>;

impl BlobLocks {
    /// Waits until nobody else fetches a blob from there.
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

    /// The blobs that somebody fetches now.
    pub(crate) fn in_use(&self) -> HashSet<Digest> {
        let locks = self.0.lock();
        locks
            .iter()
            .filter(|(_, lock)| Arc::strong_count(lock) > 1)
            .map(|((digest, _), _)| *digest)
            .collect()
    }
}
