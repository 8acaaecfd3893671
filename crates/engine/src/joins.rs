//! Operations that several callers may share.
//!
//! A caller that comes back after its deadline, with the same identity, must not find its
//! own earlier try in the way: it joins it. The work is a task of its own, so that it goes
//! on when every caller has left.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};

use crate::error::{Error, Result};

type Operation<T> = Shared<BoxFuture<'static, Result<T>>>;

/// The operations under way, by identity.
#[derive(Debug)]
pub struct Joins<K: Hash + Eq, T: Clone> {
    running: Arc<Mutex<Running<K, T>>>,
}

type Running<K, T> = HashMap<K, UnderWay<T>>;

#[derive(Debug)]
struct UnderWay<T: Clone> {
    operation: Operation<T>,
    /// How many callers wait for it.
    callers: usize,
    /// When the last of them left, if none is there.
    left: Option<Instant>,
}

impl<K, T> Joins<K, T>
where
    K: Hash + Eq + Clone + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// Nothing under way.
    pub fn new() -> Self {
        Self {
            running: Arc::new(Mutex::new(HashMap::new())),
        }
    }

    /// Joins the operation of this identity, or starts it.
    pub async fn run<F>(&self, key: K, start: impl FnOnce() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (operation, _caller) = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            let under_way = running.entry(key.clone()).or_insert_with(|| UnderWay {
                operation: self.spawn(key.clone(), start()),
                callers: 0,
                left: None,
            });
            under_way.callers += 1;
            under_way.left = None;
            let caller = Caller {
                running: Arc::clone(&self.running),
                key,
            };
            (under_way.operation.clone(), caller)
        };
        operation.await
    }

    /// For how long nobody has waited for the operation of this identity; zero while somebody
    /// does.
    pub fn abandoned(&self, key: &K) -> Duration {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let left = running.get(key).and_then(|under_way| under_way.left);
        left.map_or(Duration::ZERO, |left| left.elapsed())
    }

    /// How many operations are under way.
    pub fn count(&self) -> usize {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.len()
    }

    fn spawn<F>(&self, key: K, work: F) -> Operation<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let running = Arc::clone(&self.running);
        let task = tokio::spawn(async move {
            let done = Forget { running, key };
            let result = work.await;
            drop(done);
            result
        });
        async move {
            task.await.unwrap_or_else(|failure| {
                Err(Error::Internal(format!("the operation ended abnormally: {failure}")).into())
            })
        }
        .boxed()
        .shared()
    }
}

/// Somebody who waits for an operation.
struct Caller<K: Hash + Eq, T: Clone> {
    running: Arc<Mutex<Running<K, T>>>,
    key: K,
}

impl<K: Hash + Eq, T: Clone> Drop for Caller<K, T> {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // It may be over, and even the next one of its identity begun, which has callers then.
        if let Some(under_way) = running.get_mut(&self.key) {
            under_way.callers = under_way.callers.saturating_sub(1);
            if under_way.callers == 0 {
                under_way.left = Some(Instant::now());
            }
        }
    }
}

/// Takes the operation off the list when it ends, also by a panic.
struct Forget<K: Hash + Eq, T: Clone> {
    running: Arc<Mutex<Running<K, T>>>,
    key: K,
}

impl<K: Hash + Eq, T: Clone> Drop for Forget<K, T> {
    fn drop(&mut self) {
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn callers_of_one_identity_share_one_run() {
        let joins = Joins::<&str, u32>::new();
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
    }

    #[tokio::test]
    async fn the_work_goes_on_when_its_caller_leaves() {
        let joins = Joins::<u8, u32>::new();
        let (tell, told) = tokio::sync::oneshot::channel();
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let call = joins.run(1, || async move {
            let _ = gone.await;
            let _ = tell.send(());
            Ok(7)
        });
        assert!(
            tokio::time::timeout(Duration::from_millis(5), call)
                .await
                .is_err()
        );
        std::thread::sleep(Duration::from_millis(1));
        assert!(joins.abandoned(&1) > Duration::ZERO, "nobody waits");
        go.send(()).unwrap();
        told.await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_the_identity() {
        let joins = Joins::<u8, u32>::new();
        let result = joins.run(1, || async { panic!("on purpose") }).await;
        assert!(matches!(*result.unwrap_err(), Error::Internal(_)));
        assert_eq!(joins.run(1, || async { Ok(2) }).await.unwrap(), 2);
    }
}
