//! A thread pool with a limit, for work that waits for external parties.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use crate::limit::started;
use crate::shares::{Share, Shares};

/// The pools that had work so far; all are statics of the program, and few.
static KNOWN: Mutex<Vec<&'static Place>> = Mutex::new(Vec::new());

/// Threads for one kind of external party. One is started for each work, so an idle pool costs nothing.
#[derive(Debug)]
pub struct Place {
    name: &'static str,
    threads: usize,
    free: Semaphore,
    /// Permits for waiting and running work.
    room: Semaphore,
    owners: Shares,
    /// The limit of one piece of an owner's work within the owner's share.
    pieces: Shares,
    waiting: usize,
    is_known: AtomicBool,
}

/// The current use of a pool.
#[derive(Debug, Clone)]
pub struct Occupied {
    /// The name of the pool.
    pub name: &'static str,
    /// The number of threads.
    pub threads: usize,
    /// The number of running threads.
    pub working: usize,
    /// The number of work items that wait for a thread, or for their owner's share.
    pub waiting: usize,
    /// The first owners, with the used part of their share.
    pub owners: Vec<(String, usize)>,
}

/// Reasons why a pool did not do the work.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The limit of waiting work is reached.
    #[error("{place}: all {threads} threads are busy and the queue is full; try again later")]
    Full {
        /// The name of the pool.
        place: &'static str,
        /// The number of threads.
        threads: usize,
    },
    /// No thread could be started.
    #[error("cannot start a thread for {place}")]
    NoThread {
        /// The name of the pool.
        place: &'static str,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The work panicked.
    #[error("{place}: the operation panicked")]
    Panicked {
        /// The name of the pool.
        place: &'static str,
    },
}

impl Place {
    /// Returns a pool with this many threads, of which one owner may use `share`, and in which `waiting` items may
    /// wait.
    pub const fn new(name: &'static str, threads: usize, share: usize, waiting: usize) -> Self {
        Self {
            name,
            threads,
            free: Semaphore::const_new(threads),
            room: Semaphore::const_new(threads + waiting),
            owners: Shares::new(share),
            pieces: Shares::new(share),
            waiting,
            is_known: AtomicBool::new(false),
        }
    }

    /// Limits one piece of an owner's work to `most` of the owner's threads.
    pub fn with_pieces(self, most: usize) -> Self {
        Self {
            pieces: Shares::new(most),
            ..self
        }
    }

    /// Runs blocking work when a thread of the pool is free. The work continues if the future is dropped, and keeps its
    /// thread until it ends.
    pub async fn run<T, F>(&'static self, work: F) -> Result<T, Refused>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let room = self.room()?;
        self.on_a_thread(room, None, work).await
    }

    /// Like [`Place::run`], within the owner's share of the threads: other work of the same owner waits, that of other
    /// owners does not.
    pub async fn run_for<T, F>(&'static self, owner: &str, work: F) -> Result<T, Refused>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let room = self.room()?;
        let share = self.owners.take(owner).await;
        self.on_a_thread(room, Some((None, share)), work).await
    }

    /// Like [`Place::run_for`], within the limit for one piece of the owner's work: the rest of the share is for the
    /// owner's other work.
    pub async fn run_for_piece<T, F>(
        &'static self,
        owner: &str,
        piece: &str,
        work: F,
    ) -> Result<T, Refused>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let room = self.room()?;
        // First, so that work waiting for its own limit does not hold threads that others could use.
        let piece = self.pieces.take(&format!("{owner} {piece}")).await;
        let share = self.owners.take(owner).await;
        let share = Some((Some(piece), share));
        self.on_a_thread(room, share, work).await
    }

    /// Starts work within the owner's share if a thread is free. For work whose duration the client controls: no other
    /// work waits behind it.
    pub fn begin_for<F>(&'static self, owner: &str, work: F) -> Result<(), Refused>
    where
        F: FnOnce() + Send + 'static,
    {
        let place = self.name;
        let full = || Refused::Full {
            place,
            threads: self.threads,
        };
        let room = self.room()?;
        let share = self.owners.try_take(owner).ok_or_else(full)?;
        let thread = self.free.try_acquire().map_err(|_| full())?;
        let work = move || {
            work();
            drop((thread, share, room));
        };
        begin(Box::new(work)).map_err(|source| Refused::NoThread { place, source })
    }

    /// Returns the current use of the pool.
    pub(super) fn occupied(&self) -> Occupied {
        let working = self.threads - self.free.available_permits().min(self.threads);
        let most = self.threads + self.waiting;
        let here = most - self.room.available_permits().min(most);
        Occupied {
            name: self.name,
            threads: self.threads,
            working,
            waiting: here.saturating_sub(working),
            owners: self.owners.taken(),
        }
    }

    fn room(&'static self) -> Result<SemaphorePermit<'static>, Refused> {
        if !self.is_known.swap(true, Ordering::Relaxed) {
            KNOWN.lock().push(self);
        }
        self.room.try_acquire().map_err(|_| Refused::Full {
            place: self.name,
            threads: self.threads,
        })
    }

    async fn on_a_thread<T, F>(
        &'static self,
        room: SemaphorePermit<'static>,
        share: Option<(Option<Share>, Share)>,
        work: F,
    ) -> Result<T, Refused>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let place = self.name;
        let thread = self.free.acquire().await;
        let (tell, told) = oneshot::channel();
        let work = move || {
            let done = work();
            // Freed before the result is sent: the caller may submit new work at once.
            drop((thread, share, room));
            let _ = tell.send(done);
        };
        begin(Box::new(work)).map_err(|source| Refused::NoThread { place, source })?;
        // Only a panic drops the sender.
        told.await.map_err(|_| Refused::Panicked { place })
    }
}

/// Returns all pools that had work, with their current use.
pub fn places() -> Vec<Occupied> {
    let known = KNOWN.lock().clone();
    known.into_iter().map(Place::occupied).collect()
}

/// Takes a boxed closure, so that the code of a thread exists only once.
fn begin(work: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("orlop-waits".to_owned());
    started(thread.spawn(work)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, LazyLock, mpsc};
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
                let _ = held.lock().recv();
            })));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let other = PLACE.run_for("other", || 7);
        let done = tokio::time::timeout(Duration::from_secs(5), other).await;
        assert_eq!(done.unwrap().unwrap(), 7);
        let places = crate::places();
        let here = places.iter().find(|place| place.threads == 3).unwrap();
        assert_eq!((here.working, here.waiting), (2, 2), "{here:?}");
        assert_eq!(here.owners[0], ("hung".to_owned(), 2));
        drop(release);
        for each in hanging {
            each.await.unwrap().unwrap();
        }
        assert_eq!(PLACE.free.available_permits(), 3);
        assert_eq!(PLACE.room.available_permits(), 11);
        PLACE.run_for("other", || ()).await.unwrap();
        assert!(PLACE.owners.owners() <= 1);
    }

    #[tokio::test]
    async fn one_piece_of_work_that_hangs_leaves_threads_to_the_owner_s_others() {
        static PLACE: LazyLock<Place> =
            LazyLock::new(|| Place::new("tests", 8, 3, 8).with_pieces(2));
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let mut hanging = Vec::new();
        for _ in 0..6 {
            let held = Arc::clone(&held);
            hanging.push(tokio::spawn(PLACE.run_for_piece(
                "one",
                "large",
                move || {
                    let _ = held.lock().recv();
                },
            )));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let small = PLACE.run_for_piece("one", "small", || 7);
        let done = tokio::time::timeout(Duration::from_secs(5), small).await;
        assert_eq!(done.unwrap().unwrap(), 7);
        drop(release);
        for each in hanging {
            each.await.unwrap().unwrap();
        }
        assert_eq!(PLACE.room.available_permits(), 16);
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

    #[test]
    fn what_takes_as_long_as_it_likes_is_begun_at_once_or_not_at_all() {
        static PLACE: Place = Place::new("tests", 3, 2, 0);
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let begin = |owner| {
            let held = Arc::clone(&held);
            let work = move || {
                let _ = held.lock().recv();
            };
            PLACE.begin_for(owner, work)
        };
        let full = |refused| matches!(refused, Err(Refused::Full { .. }));
        begin("one").unwrap();
        begin("one").unwrap();
        assert!(full(begin("one")), "its share is taken");
        begin("other").unwrap();
        assert!(full(begin("third")), "all threads are taken");
        drop(release);
        let by = std::time::Instant::now() + Duration::from_secs(10);
        while begin("third").is_err() {
            assert!(std::time::Instant::now() < by, "no thread is given back");
            std::thread::sleep(Duration::from_millis(5));
        }
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
