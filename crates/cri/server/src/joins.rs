//! Operations that several callers may share.
//!
//! A client that retries after its deadline joins its own earlier attempt, found by identity, instead of conflicting
//! with it. The work is a separate task, which continues when all callers have left.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::task::JoinError;

type Outcome<T, E> = Result<T, Arc<E>>;

type Operation<T, E> = Shared<BoxFuture<'static, Outcome<T, E>>>;

/// The running operations by identity. Each has the request, if the identity does not contain it.
pub struct Joins<K, T, E, Q = ()> {
    running: Running<K, T, E, Q>,
}

type Running<K, T, E, Q> = Arc<Mutex<HashMap<K, UnderWay<T, E, Q>>>>;

struct UnderWay<T, E, Q> {
    asked: Q,
    operation: Operation<T, E>,
    /// Number of callers that wait for it.
    callers: usize,
    /// When the last caller left, if none waits.
    left: Option<Instant>,
}

/// The reason why an operation has no result of its own.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The operation panicked, or the tokio runtime has stopped.
    #[error("the operation panicked or was cancelled: {0}")]
    Broken(JoinError),
    /// Another request is running under this identity.
    #[error(
        "{0} is being created with a different configuration; wait until that request finishes"
    )]
    Another(String),
}

impl<K, T, E, Q> Default for Joins<K, T, E, Q> {
    fn default() -> Self {
        Self {
            running: Arc::default(),
        }
    }
}

impl<K, T, E, Q> std::fmt::Debug for Joins<K, T, E, Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joins").finish_non_exhaustive()
    }
}

impl<K, T, E, Q> Joins<K, T, E, Q>
where
    K: Hash + Eq + Clone + Send + 'static,
    T: Clone + Send + Sync + 'static,
    E: From<Failure> + Send + Sync + 'static,
    Q: PartialEq + Send + 'static,
{
    /// Joins the operation of this identity, or starts it. If the running operation has another request, returns an
    /// error.
    pub async fn run_as<F>(&self, key: K, asked: Q, start: impl FnOnce() -> F) -> Outcome<T, E>
    where
        K: std::fmt::Display,
        F: Future<Output = Outcome<T, E>> + Send + 'static,
    {
        match self.join(&key, asked, start) {
            Some((operation, _caller)) => operation.await,
            None => Err(Arc::new(Failure::Another(key.to_string()).into())),
        }
    }

    /// Returns how long no caller has waited for the operation of this identity; zero if one waits.
    pub fn abandoned(&self, key: &K) -> Duration {
        let running = self.running.lock();
        let left = running.get(key).and_then(|under_way| under_way.left);
        left.map_or(Duration::ZERO, |left| left.elapsed())
    }

    /// Returns the number of running operations.
    pub fn count(&self) -> usize {
        let running = self.running.lock();
        running.len()
    }

    /// Joins or starts an operation; `None` if the running one has another request.
    fn join<F>(&self, key: &K, asked: Q, start: impl FnOnce() -> F) -> Option<Joined<K, T, E, Q>>
    where
        F: Future<Output = Outcome<T, E>> + Send + 'static,
    {
        let mut running = self.running.lock();
        if running.get(key).is_some_and(|it| it.asked != asked) {
            return None;
        }
        let under_way = running.entry(key.clone()).or_insert_with(|| UnderWay {
            asked,
            operation: self.spawn(key.clone(), start()),
            callers: 0,
            left: None,
        });
        under_way.callers += 1;
        under_way.left = None;
        let caller = Caller {
            running: Arc::clone(&self.running),
            key: key.clone(),
        };
        Some((under_way.operation.clone(), caller))
    }

    fn spawn<F>(&self, key: K, work: F) -> Operation<T, E>
    where
        F: Future<Output = Outcome<T, E>> + Send + 'static,
    {
        let running = Arc::clone(&self.running);
        let task = tokio::spawn(async move {
            let done = Forget { running, key };
            let outcome = work.await;
            drop(done);
            outcome
        });
        let outcome = task.map(|ended| {
            ended.unwrap_or_else(|failure| Err(Arc::new(Failure::Broken(failure).into())))
        });
        outcome.boxed().shared()
    }
}

impl<K, T, E> Joins<K, T, E>
where
    K: Hash + Eq + Clone + Send + 'static,
    T: Clone + Send + Sync + 'static,
    E: From<Failure> + Send + Sync + 'static,
{
    /// Joins the operation of this identity, or starts it.
    pub async fn run<F>(&self, key: K, start: impl FnOnce() -> F) -> Outcome<T, E>
    where
        F: Future<Output = Outcome<T, E>> + Send + 'static,
    {
        match self.join(&key, (), start) {
            Some((operation, _caller)) => operation.await,
            None => unreachable!("all ask for the same"),
        }
    }
}

/// An operation, and the guard of a waiting caller.
type Joined<K, T, E, Q> = (Operation<T, E>, Caller<K, T, E, Q>);

/// Guard of a caller that waits for an operation.
struct Caller<K: Hash + Eq, T, E, Q> {
    running: Running<K, T, E, Q>,
    key: K,
}

impl<K: Hash + Eq, T, E, Q> Drop for Caller<K, T, E, Q> {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        // The operation may have ended, and the next one of its identity may run with callers of its own.
        if let Some(under_way) = running.get_mut(&self.key) {
            under_way.callers = under_way.callers.saturating_sub(1);
            if under_way.callers == 0 {
                under_way.left = Some(Instant::now());
            }
        }
    }
}

/// Removes the operation from the list when it ends, also after a panic.
struct Forget<K: Hash + Eq, T, E, Q> {
    running: Running<K, T, E, Q>,
    key: K,
}

impl<K: Hash + Eq, T, E, Q> Drop for Forget<K, T, E, Q> {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        running.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    type Shared<Q = ()> = Joins<&'static str, u32, Failure, Q>;

    #[tokio::test]
    async fn callers_of_one_identity_share_one_run() {
        let joins = Shared::<()>::default();
        let runs = Arc::new(AtomicU32::new(0));
        let call = || {
            joins.run("pod", || {
                let runs = Arc::clone(&runs);
                async move {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Ok(runs.fetch_add(1, Ordering::Relaxed))
                }
            })
        };
        let (a, b) = tokio::join!(call(), call());
        assert_eq!((a.unwrap(), b.unwrap()), (0, 0));
        assert_eq!(call().await.unwrap(), 1, "a finished run is not joined");
        assert_eq!(joins.count(), 0);
    }

    #[tokio::test]
    async fn who_asks_for_something_else_is_told() {
        let joins = Shared::default();
        let slow = || async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(1)
        };
        let ask = |asked| joins.run_as("pod", asked, slow);
        let (first, same, other) = tokio::join!(ask("x"), ask("x"), ask("y"));
        assert_eq!((first.unwrap(), same.unwrap()), (1, 1));
        assert!(matches!(*other.unwrap_err(), Failure::Another(_)));
        assert_eq!(ask("y").await.unwrap(), 1);
    }

    #[tokio::test]
    async fn the_work_goes_on_when_its_caller_leaves() {
        let joins = Shared::<()>::default();
        let (tell, told) = tokio::sync::oneshot::channel();
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let call = joins.run("pod", || async move {
            let _ = gone.await;
            let _ = tell.send(());
            Ok(7)
        });
        let left = tokio::time::timeout(Duration::from_millis(5), call);
        assert!(left.await.is_err());
        std::thread::sleep(Duration::from_millis(1));
        assert!(joins.abandoned(&"pod") > Duration::ZERO, "nobody waits");
        go.send(()).unwrap();
        told.await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_the_identity() {
        let joins = Shared::<()>::default();
        let outcome = joins.run("pod", || async { panic!("on purpose") }).await;
        assert!(matches!(*outcome.unwrap_err(), Failure::Broken(_)));
        assert_eq!(joins.run("pod", || async { Ok(2) }).await.unwrap(), 2);
    }
}
