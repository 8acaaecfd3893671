//! Who waits for whom, so that nothing is done to a pod or a network twice at a time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::timeout;

use crate::{ContainerId, Error};

/// How long it is waited for a moment at which garbage can be collected.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked whether that moment is there.
const LOOK: Duration = Duration::from_millis(100);

/// The gates of a node's networks. Who passes several takes the pod's before a network's.
///
/// Some wait on a thread. None of these is the node's own: it is one of a place of plugins (`places.rs`), where
/// - a pod's gate ([`Gates::pod_blocking`]) is waited for by the one that collects garbage alone. Who is asked how the
///   network is has the other thread of that place, and ADD and DEL have places of their own;
/// - a network's ([`Gates::beside_others`]) is held alone for one plugin's GC, which has a deadline. Who waits then has
///   threads of the networks of one directory, all of which each pod there is attached to: a directory is an owner,
///   and leaves a quarter of its place to others;
/// - [`Gates::alone`] gives up after [`PATIENCE`], and queues before nobody.
///
/// So a plugin or a file that hangs holds up pods of its own networks, for as long as plugins may take.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// Each held by the one that works on the pod.
    pods: Keyed<ContainerId, AsyncMutex<()>>,
    /// By name, each held shared by ADD and DEL, alone by GC, which must not run beside an ADD it
    /// does not know of.
    networks: Keyed<String, RwLock<()>>,
    /// Held by the one that collects garbage.
    collecting: Arc<AsyncMutex<()>>,
}

impl Gates {
    /// Waits until nobody else works on the pod.
    pub(super) async fn pod(&self, id: &ContainerId) -> OwnedMutexGuard<()> {
        self.pods.get(id).lock_owned().await
    }

    /// The same, on a thread that may block.
    pub(super) fn pod_blocking(&self, id: &ContainerId) -> OwnedMutexGuard<()> {
        self.pods.get(id).blocking_lock_owned()
    }

    /// Does ADD or DEL on a network, not beside GC. Blocks for as long as one plugin's GC may take.
    pub(super) fn beside_others<T>(&self, network: &str, work: impl FnOnce() -> T) -> T {
        let gate = self.networks.get(network);
        let _shared = gate.blocking_read();
        work()
    }

    /// Keeps a network's ADD and DEL waiting; `None` if some of them were at work all the time.
    ///
    /// Not by queueing: that would hold up every new pod until the slowest plugin at work is done.
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

    /// Waits a while until nobody else collects garbage.
    pub(super) async fn turn_to_collect(&self) -> Result<OwnedMutexGuard<()>, Error> {
        let turn = Arc::clone(&self.collecting).lock_owned();
        timeout(PATIENCE, turn).await.map_err(|_| Error::Collecting)
    }
}

/// One lock for each key that somebody is interested in.
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
