//! Shares of a limit, one per owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit for each of many owners.
#[derive(Debug)]
pub struct Shares {
    each: usize,
    owners: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// A part of an owner's share, released when it is dropped.
#[derive(Debug)]
pub struct Share {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Shares {
    /// Shares with this limit for each owner.
    pub const fn new(each: usize) -> Self {
        Self {
            each,
            owners: Mutex::new(BTreeMap::new()),
        }
    }

    /// Returns the first owners, with the used part of their share.
    pub(super) fn taken(&self) -> Vec<(String, usize)> {
        const MOST: usize = 64;
        let owners = self.owners.lock();
        let owners = owners.iter().take(MOST);
        let taken = |share: &Semaphore| self.each.saturating_sub(share.available_permits());
        owners
            .map(|(owner, share)| (owner.clone(), taken(share)))
            .collect()
    }

    /// Waits until a part of the owner's share is free. Work of the same owner waits, that of other owners does not.
    pub async fn take(&self, owner: &str) -> Share {
        // The semaphore is never closed.
        Share {
            _permit: self.of(owner).acquire_owned().await.ok(),
        }
    }

    /// Takes a part of the owner's share, if one is free.
    pub(super) fn try_take(&self, owner: &str) -> Option<Share> {
        let permit = self.of(owner).try_acquire_owned().ok()?;
        Some(Share {
            _permit: Some(permit),
        })
    }

    fn of(&self, owner: &str) -> Arc<Semaphore> {
        let mut owners = self.owners.lock();
        // Holders of a part and waiting tasks hold the semaphore as well.
        owners.retain(|_, share| Arc::strong_count(share) > 1);
        let share = owners
            .entry(owner.to_owned())
            .or_insert_with(|| Arc::new(Semaphore::new(self.each)));
        Arc::clone(share)
    }

    #[cfg(test)]
    pub(crate) fn owners(&self) -> usize {
        self.owners.lock().len()
    }
}

/// Returns the maximum part of a share for one of several users: two thirds, so that some is left for the others. A
/// share of one cannot be divided.
pub const fn most_of(share: usize) -> usize {
    match share {
        0 | 1 => share,
        2 => 1,
        share => share - share / 3,
    }
}
