//! Objects from `orlop apply`, as a source of the agent.

use std::sync::Arc;

use orlop_pool::{Ended, blocking};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::source::{Snapshot, Store, Update};

/// The applied objects. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct AppliedManifests(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Mutex<Store>,
    /// The index of this source.
    place: usize,
    updates: mpsc::Sender<Update>,
}

impl AppliedManifests {
    pub(crate) fn new((place, store): (usize, Store), updates: mpsc::Sender<Update>) -> Self {
        Self(Arc::new(Inner {
            store: Mutex::new(store),
            place,
            updates,
        }))
    }

    /// Runs `work` on the store and sends the new snapshot to the agent. It reserves a slot in the
    /// channel before it occupies a thread, because the agent may need a thread before it receives
    /// again.
    pub(crate) async fn change<T>(
        &self,
        work: impl FnOnce(&mut Store) -> T + Send + 'static,
    ) -> Result<T, Ended>
    where
        T: Send + 'static,
    {
        let turn = self.0.updates.clone().reserve_owned().await.ok();
        let inner = Arc::clone(&self.0);
        blocking(move || {
            let mut store = inner.store.lock();
            let result = work(&mut store);
            inner.tell(turn, store.snapshot());
            result
        })
        .await
    }
}

impl Inner {
    fn tell(&self, turn: Option<mpsc::OwnedPermit<Update>>, snapshot: Snapshot) {
        if let Some(turn) = turn {
            turn.send((self.place, snapshot));
        } else {
            tracing::debug!("applied objects arrived after the agent had stopped");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn orders_that_wait_for_the_agent_leave_it_threads() {
        const MORE_THAN_THREADS: usize = 100;
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), "node").unwrap();
        let (updates, mut heard) = mpsc::channel(1);
        let applied = AppliedManifests::new((7, store), updates);
        let mut orders = Vec::new();
        for _ in 0..MORE_THAN_THREADS {
            let applied = applied.clone();
            orders.push(tokio::spawn(async move { applied.change(|_| ()).await }));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        // The agent needs a thread between two updates.
        let looking = tokio::time::timeout(Duration::from_secs(10), blocking(|| 7));
        assert_eq!(looking.await.expect("no thread is left").unwrap(), 7);
        for _ in 0..MORE_THAN_THREADS {
            assert_eq!(heard.recv().await.unwrap().0, 7);
        }
        for order in orders {
            order.await.unwrap().unwrap();
        }
        drop(heard);
        applied.change(|_| ()).await.unwrap();
    }
}
