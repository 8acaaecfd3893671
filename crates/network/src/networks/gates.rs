//! Locks that prevent concurrent operations on the same pod or network.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::timeout;

use crate::{ContainerId, Error};

/// Timeout for a moment at which garbage can be collected.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval of the checks for that moment.
const LOOK: Duration = Duration::from_millis(100);

/// The locks of a node's networks. Code that needs several takes the pod's lock before a network's.
///
/// Some operations block a thread. They never block a thread of the daemon's own, only threads of the plugin pools
/// (`places.rs`):
/// - Only garbage collection blocks on a pod's lock ([`Gates::pod_blocking`]). STATUS uses the other thread of that
///   pool, and ADD and DEL have their own pools.
/// - GC of one plugin holds a network's lock exclusively ([`Gates::beside_others`]), with a timeout. The operations
///   that wait use threads of the networks of one directory, and each pod there is attached to all of these networks.
///   A directory is one owner in the pool, and leaves a quarter of the threads to others.
/// - [`Gates::alone`] gives up after [`PATIENCE`], and blocks no other operation while it waits.
///
/// So a plugin or a file that hangs only delays pods of its own networks, at most for the plugins' timeout.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// Each lock is held by the operation on the pod.
    pods: Keyed<ContainerId, AsyncMutex<()>>,
    /// Locks by network name. ADD and DEL hold them shared. GC holds them exclusively, because it must not run
    /// concurrently with an ADD that its list does not include.
    networks: Keyed<String, RwLock<()>>,
    /// Held during garbage collection.
    collecting: Arc<AsyncMutex<()>>,
}

impl Gates {
    /// Waits until no other operation works on the pod.
    pub(super) async fn pod(&self, id: &ContainerId) -> OwnedMutexGuard<()> {
        self.pods.get(id).lock_owned().await
    }

    /// Waits like [`Self::pod`], but blocks the thread.
    pub(super) fn pod_blocking(&self, id: &ContainerId) -> OwnedMutexGuard<()> {
        self.pods.get(id).blocking_lock_owned()
    }

    /// Runs ADD or DEL on a network, not concurrently with GC. Blocks at most for one plugin's GC.
    pub(super) fn beside_others<T>(&self, network: &str, work: impl FnOnce() -> T) -> T {
        let gate = self.networks.get(network);
        let _shared = gate.blocking_read();
        work()
    }

    /// Locks a network against ADD and DEL; returns `None` if operations were running all the time.
    ///
    /// The lock does not queue: a queued writer would hold up every new pod until the slowest running plugin is done.
    pub(super) fn alone(&self, network: &str) -> Option<OwnedRwLockWriteGuard<()>> {
        let gate = self.networks.get(network);
        let mut waited = Duration::ZERO;
        loop {
            match Arc::clone(&gate).try_write_owned() {
                Ok(alone) => return Some(alone),
                Err(_) if waited < PATIENCE => std::thread::sleep(LOOK),
                Err(_) => return None,
            }
            waited += LOOK;
        }
    }

    /// Waits a limited time until no other garbage collection runs.
    pub(super) async fn turn_to_collect(&self) -> Result<OwnedMutexGuard<()>, Error> {
        let turn = Arc::clone(&self.collecting).lock_owned();
        timeout(PATIENCE, turn).await.map_err(|_| Error::Collecting)
    }
}

/// One lock for each key in use.
#[derive(Debug)]
struct Keyed<K, L>(Mutex<HashMap<K, Weak<L>>>);

impl<K: Eq + Hash, L: Default> Keyed<K, L> {
    fn get<Q>(&self, key: &Q) -> Arc<L>
    where
        K: std::borrow::Borrow<Q>,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        let mut locks = self.0.lock();
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(L::default());
        locks.insert(key.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

impl<K, L> Default for Keyed<K, L> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
