use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, oneshot};

/// Threads of one kind of stranger. One is started for each work, so an empty place costs nothing.
#[derive(Debug)]
pub struct Place {
    name: &'static str,
    threads: usize,
    share: usize,
    free: Semaphore,
    /// Room for those that wait and those that work.
    room: Semaphore,
    owners: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// Why a place did not do the work.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// As many wait already as may.
    #[error(
        "{place}: all {threads} threads are taken and as many calls wait as may: try again later"
    )]
    Full {
        /// The place's name.
        place: &'static str,
        /// How many threads it has.
        threads: usize,
    },
    /// No thread could be started.
    #[error("{place}: no thread can be started")]
    NoThread {
        /// The place's name.
        place: &'static str,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The work panicked.
    #[error("{place}: the operation ended abnormally")]
    Panicked {
        /// The place's name.
        place: &'static str,
    },
}

impl Place {
    /// A place with so many threads, of which one owner gets `share`, and where `waiting` may wait.
    pub const fn new(name: &'static str, threads: usize, share: usize, waiting: usize) -> Self {
        Self {
            name,
            threads,
            share,
            free: Semaphore::const_new(threads),
            room: Semaphore::const_new(threads + waiting),
            owners: Mutex::new(BTreeMap::new()),
        }
    }

    /// Runs blocking work when a thread of the place is free. The work goes on if nobody waits for it
    /// any more, and holds its thread until it ends.
    pub async fn run<T, F>(&'static self, work: F) -> Result<T, Refused>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let room = self.room()?;
        self.on_a_thread(room, None, work).await
    }

    /// Like [`Place::run`], on the owner's share of the threads: others of the same owner wait for it,
    /// those of other owners do not.
    pub async fn run_for<T, F>(&'static self, owner: &str, work: F) -> Result<T, Refused>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let room = self.room()?;
        let share = self.share_of(owner);
        // A share is never closed.
        let permit = share.acquire_owned().await.ok();
        self.on_a_thread(room, permit, work).await
    }

    fn room(&'static self) -> Result<SemaphorePermit<'static>, Refused> {
        self.room.try_acquire().map_err(|_| Refused::Full {
            place: self.name,
            threads: self.threads,
        })
    }

    fn share_of(&self, owner: &str) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        // Who holds or waits for a permit holds the share as well.
        owners.retain(|_, share| Arc::strong_count(share) > 1);
        let share = owners
            .entry(owner.to_owned())
            .or_insert_with(|| Arc::new(Semaphore::new(self.share)));
        Arc::clone(share)
    }

    async fn on_a_thread<T, F>(
        &'static self,
        room: SemaphorePermit<'static>,
        share: Option<OwnedSemaphorePermit>,
        work: F,
    ) -> Result<T, Refused>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let place = self.name;
        let thread = self.free.acquire().await;
        let (tell, told) = oneshot::channel();
        std::thread::Builder::new()
            .name("orlop-waits".to_owned())
            .spawn(move || {
                let done = work();
                // Free before it is told: who is told may come again at once.
                drop((thread, share, room));
                let _ = tell.send(done);
            })
            .map_err(|source| Refused::NoThread { place, source })?;
        // Only a panic drops the sender.
        told.await.map_err(|_| Refused::Panicked { place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test]
    async fn who_hangs_takes_its_own_share_and_no_more() {
        static PLACE: Place = Place::new("tests", 3, 2, 8);
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let mut hanging = Vec::new();
        for _ in 0..4 {
            let held = Arc::clone(&held);
            hanging.push(tokio::spawn(PLACE.run_for("hung", move || {
                let _ = held.lock().unwrap().recv();
            })));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let other = PLACE.run_for("other", || 7);
        let done = tokio::time::timeout(Duration::from_secs(5), other).await;
        assert_eq!(done.unwrap().unwrap(), 7);
        drop(release);
        for each in hanging {
            each.await.unwrap().unwrap();
        }
        assert_eq!(PLACE.free.available_permits(), 3);
        assert_eq!(PLACE.room.available_permits(), 11);
        PLACE.run_for("other", || ()).await.unwrap();
        assert!(PLACE.owners.lock().unwrap().len() <= 1);
    }

    #[tokio::test]
    async fn who_finds_no_room_is_told_at_once() {
        static PLACE: Place = Place::new("tests", 1, 1, 1);
        let (release, held) = mpsc::channel::<()>();
        let first = tokio::spawn(PLACE.run(move || {
            let _ = held.recv();
        }));
        let second = tokio::spawn(PLACE.run(|| ()));
        tokio::time::sleep(Duration::from_millis(50)).await;
        let error = PLACE.run(|| ()).await.unwrap_err();
        assert!(matches!(error, Refused::Full { threads: 1, .. }), "{error}");
        drop(release);
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_goes_on_and_holds_its_thread() {
        static PLACE: Place = Place::new("tests", 1, 1, 4);
        let (release, held) = mpsc::channel::<()>();
        let left = tokio::time::timeout(
            Duration::from_millis(50),
            PLACE.run(move || {
                let _ = held.recv();
            }),
        );
        assert!(left.await.is_err());
        assert_eq!(PLACE.free.available_permits(), 0);
        drop(release);
        PLACE.run(|| ()).await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_told_and_frees_the_thread() {
        static PLACE: Place = Place::new("tests", 1, 1, 0);
        let error = PLACE.run(|| panic!("on purpose")).await.unwrap_err();
        assert!(matches!(error, Refused::Panicked { .. }), "{error}");
        PLACE.run(|| ()).await.unwrap();
    }
}
