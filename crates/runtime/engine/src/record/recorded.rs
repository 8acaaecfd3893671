//! State that is derived from a journal.
//!
//! An event is first written and then applied, both with the journal locked, so that the order on disk is
//! the order of the changes. This happens on a blocking thread, and completes even if the caller leaves.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde::{Serialize, de::DeserializeOwned};

use crate::blocking;
use crate::error::{Error, Result};
use crate::record::journal::Journal;

/// State that results from events.
pub trait State: Debug + Clone + Default + Send + Sync + 'static {
    /// An event of the journal.
    type Event: Debug + Serialize + DeserializeOwned + Send + 'static;

    /// Applies an event.
    fn apply(&mut self, event: Self::Event);

    /// Whether few further events are expected. There may be many such objects, so the journal keeps no
    /// descriptor open for them. Running objects keep theirs, and can write when no descriptor is left.
    fn rests(&self) -> bool;
}

/// A state with its journal.
#[derive(Debug)]
pub struct Recorded<S: State>(Arc<Inner<S>>);

#[derive(Debug)]
struct Inner<S: State> {
    /// The object of the record, for messages.
    of: String,
    now: RwLock<S>,
    journal: Mutex<Journal<S::Event>>,
}

impl<S: State> Recorded<S> {
    /// Creates the record of `of` with its first event. Blocks.
    pub fn create(of: String, path: &Path, first: &S::Event) -> Result<Self> {
        let journal = Journal::create(path, first)
            .map_err(Error::io(format!("writing the record of {of}")))?;
        Ok(Self::new(of, S::default(), journal))
    }

    /// Reads a record: its first event, and the state that results from the others. `None` if the record is
    /// empty. Blocks.
    pub fn open(of: String, path: &Path) -> Result<Option<(S::Event, Self)>> {
        let (journal, events) = match Journal::open(path) {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Error::io(format!("reading the record of {of}"))(error).into());
            }
        };
        let mut events = events.into_iter();
        let Some(first) = events.next() else {
            return Ok(None);
        };
        let mut now = S::default();
        events.for_each(|event| now.apply(event));
        Ok(Some((first, Self::new(of, now, journal))))
    }

    fn new(of: String, now: S, mut journal: Journal<S::Event>) -> Self {
        if now.rests() {
            journal.rest();
        }
        Self(Arc::new(Inner {
            of,
            now: RwLock::new(now),
            journal: Mutex::new(journal),
        }))
    }

    /// Writes an event to the journal, then applies it.
    pub async fn record(&self, event: S::Event) -> Result<()> {
        self.off_reactor(move |inner| inner.record(event)).await
    }

    /// Like [`record`](Self::record), for a caller that may block on the disk.
    pub fn record_here(&self, event: S::Event) -> Result<()> {
        self.0.record(event)
    }

    /// Applies an event even if it cannot be written, for steps that free space on a full disk, or that have
    /// already happened.
    pub async fn record_if_possible(&self, event: S::Event) {
        self.record_unless(|_| false, event).await;
    }

    /// Applies an event as above unless `needless` returns true; returns whether it was applied.
    pub async fn record_unless(
        &self,
        needless: impl FnOnce(&S) -> bool + Send + 'static,
        event: S::Event,
    ) -> bool {
        let recorded = self.off_reactor(move |inner| {
            let mut journal = inner.journal();
            if inner.look(needless) {
                return Ok(false);
            }
            if let Err(error) = journal.append(&event) {
                tracing::warn!(of = inner.of, %error, "cannot write a record; continuing without it");
            }
            inner.apply(event, &mut journal);
            Ok(true)
        });
        recorded.await.unwrap_or_else(|error| {
            tracing::error!(of = self.0.of, %error, "cannot record an event");
            false
        })
    }

    async fn off_reactor<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner<S>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.0);
        blocking(move || work(&inner)).await
    }

    /// Reads the state.
    pub fn look<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        self.0.look(look)
    }

    /// Changes a part of the state that is not recorded.
    pub fn change<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        change(&mut self.0.now.write())
    }
}

impl<S: State> Inner<S> {
    fn journal(&self) -> parking_lot::MutexGuard<'_, Journal<S::Event>> {
        self.journal.lock()
    }

    fn record(&self, event: S::Event) -> Result<()> {
        let mut journal = self.journal();
        let written = journal.append(&event);
        written.map_err(Error::io(format!("writing the record of {}", self.of)))?;
        self.apply(event, &mut journal);
        Ok(())
    }

    fn look<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.now.read())
    }

    fn apply(&self, event: S::Event, journal: &mut Journal<S::Event>) {
        let mut now = self.now.write();
        now.apply(event);
        if now.rests() {
            journal.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of its events.
    #[derive(Debug, Clone, Default)]
    struct Sum(u32);

    impl State for Sum {
        type Event = u32;

        fn apply(&mut self, event: u32) {
            self.0 += event;
        }

        fn rests(&self) -> bool {
            self.0 >= 100
        }
    }

    #[tokio::test]
    async fn what_was_recorded_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let sum = Recorded::<Sum>::create("a sum".into(), &path, &7).unwrap();
        sum.record(1).await.unwrap();
        sum.record_if_possible(2).await;
        assert!(!sum.record_unless(|sum| sum.0 == 3, 100).await);
        assert!(sum.record_unless(|sum| sum.0 == 0, 4).await);
        assert_eq!(sum.look(|sum| sum.0), 7);
        let (first, again) = Recorded::<Sum>::open("a sum".into(), &path)
            .unwrap()
            .unwrap();
        assert_eq!((first, again.look(|sum| sum.0)), (7, 7));
    }

    #[tokio::test]
    async fn what_rests_holds_no_file_open_and_is_recorded_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let is_open = || {
            let held = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let mut targets = held.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            targets.any(|target| target == path)
        };
        let sum = Recorded::<Sum>::create("a sum".into(), &path, &7).unwrap();
        sum.record(1).await.unwrap();
        assert!(is_open());
        sum.record(99).await.unwrap();
        assert!(!is_open());
        sum.record(5).await.unwrap();
        assert!(!is_open());
        let (_, again) = Recorded::<Sum>::open("a sum".into(), &path)
            .unwrap()
            .unwrap();
        assert_eq!(again.look(|sum| sum.0), 105);
        assert!(!is_open());
    }

    #[tokio::test]
    #[expect(clippy::await_holding_lock, reason = "another thread waits for it")]
    async fn an_event_is_recorded_even_when_its_caller_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let sum = Recorded::<Sum>::create("a sum".into(), &path, &0).unwrap();
        let held = sum.0.journal.lock();
        let leaving = tokio::time::timeout(std::time::Duration::from_millis(20), sum.record(5));
        leaving.await.unwrap_err();
        assert_eq!(sum.look(|sum| sum.0), 0, "not true before it is written");
        drop(held);
        for _ in 0..500 {
            if sum.look(|sum| sum.0) == 5 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("the event was lost");
    }
}
