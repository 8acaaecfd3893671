//! A place with so many seats, where work waits for strangers.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use crate::limit::started;
use crate::shares::{Share, Shares};

/// Those that had work so far; they are part of the program, and few.
static KNOWN: Mutex<Vec<&'static Place>> = Mutex::new(Vec::new());

/// Threads of one kind of stranger. One is started for each work, so an empty place costs nothing.
#[derive(Debug)]
pub struct Place {
    name: &'static str,
    threads: usize,
    free: Semaphore,
    /// Room for those that wait and those that work.
    room: Semaphore,
    owners: Shares,
    /// What one piece of an owner's work gets of the owner's share.
    pieces: Shares,
    waiting: usize,
    is_known: AtomicBool,
}

/// Who is in a place.
#[derive(Debug, Clone)]
pub struct Occupied {
    /// The place's name.
    pub name: &'static str,
    /// How many threads it has.
    pub threads: usize,
    /// Of these, those that work.
    pub working: usize,
    /// Work that waits for a thread, or for its owner's share of them.
    pub waiting: usize,
    /// Whose work it is, and how much of the owner's share is taken; the first of them.
    pub owners: Vec<(String, usize)>,
}

/// Why a place did not do the work.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// As many wait already as may.
    #[error("{place}: all {threads} threads are busy and the queue is full; try again later")]
    Full {
        /// The place's name.
        place: &'static str,
        /// How many threads it has.
        threads: usize,
    },
    /// No thread could be started.
    #[error("cannot start a thread for {place}")]
    NoThread {
        /// The place's name.
        place: &'static str,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The work panicked.
    #[error("{place}: the operation panicked")]
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
            free: Semaphore::const_new(threads),
            room: Semaphore::const_new(threads + waiting),
            owners: Shares::new(share),
            pieces: Shares::new(share),
            waiting,
            is_known: AtomicBool::new(false),
        }
    }

    /// The same place, where one piece of an owner's work gets `most` of the owner's threads.
    pub fn with_pieces(self, most: usize) -> Self {
        Self {
            pieces: Shares::new(most),
            ..self
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
        let share = self.owners.take(owner).await;
        self.on_a_thread(room, Some((None, share)), work).await
    }

    /// Like [`Place::run_for`], on what one piece of the owner's work gets of its share: the rest is
    /// for the owner's other work.
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
        // Who waits for its own must not hold what others could use.
        let piece = self.pieces.take(&format!("{owner} {piece}")).await;
        let share = self.owners.take(owner).await;
        let share = Some((Some(piece), share));
        self.on_a_thread(room, share, work).await
    }

    /// Begins work on the owner's share of the threads if one is free, for what takes as long as who asked for it
    /// likes: nobody waits behind that.
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

    /// Who is in it at the moment.
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
            // Free before it is told: who is told may come again at once.
            drop((thread, share, room));
            let _ = tell.send(done);
        };
        begin(Box::new(work)).map_err(|source| Refused::NoThread { place, source })?;
        // Only a panic drops the sender.
        told.await.map_err(|_| Refused::Panicked { place })
    }
}

/// All places that had work, with who is in them.
pub fn places() -> Vec<Occupied> {
    let known = KNOWN.lock().clone();
    known.into_iter().map(Place::occupied).collect()
}

/// All of one type, so that what is around a thread is there once.
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
