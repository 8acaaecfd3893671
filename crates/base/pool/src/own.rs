//! The node's own blocking work, which waits only for its disk or its kernel.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::limit::started;

/// More threads would only wait for the same disk. Work that waits for external parties has its own threads
/// ([`crate::Place`]).
const THREADS: usize = 64;

/// An idle thread exits after this time, except the last one.
const IDLE: Duration = Duration::from_secs(2);

static OWN: Threads = Threads::new(THREADS, IDLE);

/// Threads of the image store. They never wait in the kernel for an image that is being fetched, as those of [`OWN`]
/// may.
static STORING: Threads = Threads::new(32, IDLE);

/// Threads that answer processes blocked in the kernel. They wait only for what an answer needs.
static ANSWERING: Threads = Threads::new(32, IDLE);

/// Reasons why blocking work did not finish.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The work panicked.
    #[error("the operation panicked: {0}")]
    Panicked(String),
    /// No thread exists, and none can be started.
    #[error("starting a thread")]
    NoThread(#[source] io::Error),
}

/// Starts the threads for blocking work, in case no other can be started later. After an early call such work is never
/// refused.
pub fn ready() -> io::Result<()> {
    OWN.begin(Box::new(|| ()))?;
    STORING.begin(Box::new(|| ()))?;
    ANSWERING.begin(Box::new(|| ()))
}

/// Runs blocking work on a separate thread. It continues if the future is dropped.
pub fn blocking<T, F>(work: F) -> impl Future<Output = Result<T, Ended>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    on(&OWN, work)
}

/// Like [`blocking`], for the image store: it has its own threads, 32 at most.
pub fn storing<T, F>(work: F) -> impl Future<Output = Result<T, Ended>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    on(&STORING, work)
}

/// Like [`blocking`], for work that a blocked process may wait for: it has its own threads.
pub fn answering<T, F>(work: F) -> impl Future<Output = Result<T, Ended>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    on(&ANSWERING, work)
}

/// Waits until all started work is done, up to the limit.
pub fn finish(limit: Duration) {
    let by = Instant::now() + limit;
    OWN.finish(by);
    STORING.finish(by);
    ANSWERING.finish(by);
}

fn on<T, F>(
    threads: &'static Threads,
    work: F,
) -> impl Future<Output = Result<T, Ended>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (tell, told) = oneshot::channel();
    // Boxed, so that the future is not as large as the work.
    let work: Work = Box::new(move || {
        let done = catch_unwind(AssertUnwindSafe(work));
        let _ = tell.send(done.map_err(|panic| Ended::Panicked(words(&*panic))));
    });
    async move {
        begin_here(threads, work).map_err(Ended::NoThread)?;
        let lost = |_| Err(Ended::Panicked("its result was lost".to_owned()));
        told.await.unwrap_or_else(lost)
    }
}

/// Tasks that the work starts run on the caller's runtime.
fn begin_here(threads: &'static Threads, work: Work) -> io::Result<()> {
    match Handle::try_current() {
        Ok(reactor) => threads.begin(Box::new(move || {
            let _here = reactor.enter();
            work();
        })),
        Err(_) => threads.begin(work),
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no reason given").to_owned()
}

type Work = Box<dyn FnOnce() + Send>;

/// Threads that are started on demand.
///
/// tokio stops all its idle threads, and panics if it cannot start the next one. Here the last thread stays: a node
/// that cannot start threads any more does its own work sequentially, and so can undo what it could not complete.
struct Threads {
    state: Mutex<State>,
    /// Signals new work.
    come: Condvar,
    /// Signals that all threads are idle.
    done: Condvar,
    most: usize,
    idle: Duration,
}

struct State {
    waiting: VecDeque<Work>,
    threads: usize,
    /// The number of threads that wait for work.
    idle: usize,
}

impl Threads {
    const fn new(most: usize, idle: Duration) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                threads: 0,
                idle: 0,
            }),
            come: Condvar::new(),
            done: Condvar::new(),
            most,
            idle,
        }
    }

    fn begin(&'static self, work: Work) -> io::Result<()> {
        let mut state = self.state.lock();
        state.waiting.push_back(work);
        // A woken thread counts as idle until it has taken its work.
        if state.waiting.len() <= state.idle {
            self.come.notify_one();
            return Ok(());
        }
        if state.threads == self.most {
            return Ok(());
        }
        let thread = std::thread::Builder::new().name("orlop-own".to_owned());
        match started(thread.spawn(|| self.serve())) {
            Ok(_) => state.threads += 1,
            // No thread would take the work.
            Err(error) if state.threads == 0 => {
                state.waiting.pop_back();
                return Err(error);
            }
            // An existing thread will take it.
            Err(_) => {}
        }
        Ok(())
    }

    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(work) = state.waiting.pop_front() {
                drop(state);
                // Values held by the work are dropped with it, and may panic as well.
                let _ = catch_unwind(AssertUnwindSafe(work));
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            if state.idle == state.threads {
                self.done.notify_all();
            }
            let is_last = state.threads == 1;
            let is_late = if is_last {
                self.come.wait(&mut state);
                false
            } else {
                self.come.wait_for(&mut state, self.idle).timed_out()
            };
            state.idle -= 1;
            if is_late && state.waiting.is_empty() && state.threads > 1 {
                state.threads -= 1;
                return;
            }
        }
    }

    fn finish(&self, by: Instant) {
        let mut state = self.state.lock();
        while state.idle < state.threads || !state.waiting.is_empty() {
            if self.done.wait_until(&mut state, by).timed_out() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn the_outcome_comes_back_and_a_panic_is_told() {
        assert_eq!(blocking(|| 7).await.unwrap(), 7);
        let error = blocking(|| panic!("on purpose")).await.unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("panicked") && said.contains("on purpose"),
            "{said}"
        );
    }

    #[tokio::test]
    async fn what_is_done_belongs_to_the_reactor_of_who_asked() {
        let spawned = blocking(|| tokio::spawn(async { 7 })).await.unwrap();
        assert_eq!(spawned.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn threads_come_as_they_are_needed_and_all_but_one_go() {
        static THREADS: Threads = Threads::new(3, Duration::from_millis(50));
        let mut at_work = Vec::new();
        let mut releases = Vec::new();
        for _ in 0..5 {
            let (release, held) = mpsc::channel::<()>();
            at_work.push(tokio::spawn(on(&THREADS, move || held.recv().is_err())));
            releases.push(release);
        }
        until(|state| state.threads == 3 && state.waiting.len() == 2).await;
        drop(releases);
        for each in at_work {
            assert!(each.await.unwrap().unwrap());
        }
        until(|state| state.threads == 1 && state.idle == 1).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(THREADS.state.lock().threads, 1, "the last one stays");
        assert_eq!(on(&THREADS, || 7).await.unwrap(), 7);

        async fn until(is_so: impl Fn(&State) -> bool) {
            let by = Instant::now() + Duration::from_secs(10);
            while !is_so(&THREADS.state.lock()) {
                assert!(Instant::now() < by);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    #[tokio::test]
    async fn the_end_waits_for_what_was_begun_and_no_longer_than_it_may() {
        static THREADS: Threads = Threads::new(1, IDLE);
        let (release, held) = mpsc::channel::<()>();
        let work = tokio::spawn(on(&THREADS, move || held.recv().is_err()));
        let later = tokio::spawn(on(&THREADS, || ()));
        while THREADS.state.lock().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        let begun = Instant::now();
        THREADS.finish(begun + Duration::from_millis(100));
        assert!(begun.elapsed() >= Duration::from_millis(100));
        drop(release);
        THREADS.finish(begun + Duration::from_secs(10));
        assert!(begun.elapsed() < Duration::from_secs(10));
        let is_over = |state: &State| state.waiting.is_empty() && state.idle == state.threads;
        assert!(is_over(&THREADS.state.lock()));
        work.await.unwrap().unwrap();
        later.await.unwrap().unwrap();
    }
}
