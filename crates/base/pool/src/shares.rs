//! A place whose seats are shared among those who wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What each of many owners may have of one thing at the same time.
#[derive(Debug)]
pub struct Shares {
    each: usize,
    owners: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// A part of an owner's share, until it is dropped.
#[derive(Debug)]
pub struct Share {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Shares {
    /// So much for each owner.
    pub const fn new(each: usize) -> Self {
        Self {
            each,
            owners: Mutex::new(BTreeMap::new()),
        }
    }

    /// The first owners, with how much of their share is taken.
    pub(super) fn taken(&self) -> Vec<(String, usize)> {
        const MOST: usize = 64;
        let owners = self.owners.lock();
        let owners = owners.iter().take(MOST);
        let taken = |share: &Semaphore| self.each.saturating_sub(share.available_permits());
        owners
            .map(|(owner, share)| (owner.clone(), taken(share)))
            .collect()
    }

    /// Waits until the owner has some of its share left. Others of the same owner wait for it, those
    /// of other owners do not.
    pub async fn take(&self, owner: &str) -> Share {
        // A share is never closed.
        Share {
            _permit: self.of(owner).acquire_owned().await.ok(),
        }
    }

    /// A part of what the owner has left, if it has any.
    pub(super) fn try_take(&self, owner: &str) -> Option<Share> {
        let permit = self.of(owner).try_acquire_owned().ok()?;
        Some(Share {
            _permit: Some(permit),
        })
    }

    fn of(&self, owner: &str) -> Arc<Semaphore> {
        let mut owners = self.owners.lock();
        // Who holds or waits for a part holds the share as well.
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

/// What one of several that divide a share may have of it: two thirds, so that the others find some
/// left. A share of one cannot be divided.
pub const fn most_of(share: usize) -> usize {
    match share {
        0 | 1 => share,
        2 => 1,
        share => share - share / 3,
    }
}
