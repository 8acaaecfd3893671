//! One operation per name at a time. Whoever asks for the same again waits for it and gets its
//! outcome: a kubelet whose patience is over calls once more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};

use crate::error::{Error, Result};

type Outcome = Shared<BoxFuture<'static, Result<String>>>;

type UnderWay<R> = Arc<Mutex<HashMap<String, (R, Outcome)>>>;

/// The operations under way, each with what was asked for.
pub(crate) struct Joins<R>(UnderWay<R>);

impl<R> Default for Joins<R> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<R: PartialEq + Send + 'static> Joins<R> {
    /// Runs `work` as a task of its own, or joins the one that runs under this name.
    pub(crate) async fn run(
        &self,
        name: &str,
        request: R,
        work: impl Future<Output = Result<String>> + Send + 'static,
    ) -> Result<String> {
        let outcome = {
            let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match under_way.get(name) {
                Some((asked, outcome)) if *asked == request => outcome.clone(),
                Some(_) => {
                    let problem = format!(
                        "{name} is being made with another configuration at this moment: wait for \
                         that to end"
                    );
                    return Err(Error::Precondition(problem).into());
                }
                None => {
                    let outcome = self.begin(name.to_owned(), work);
                    under_way.insert(name.to_owned(), (request, outcome.clone()));
                    outcome
                }
            }
        };
        outcome.await
    }

    fn begin(
        &self,
        name: String,
        work: impl Future<Output = Result<String>> + Send + 'static,
    ) -> Outcome {
        let all = Arc::clone(&self.0);
        // A task: it goes on when everybody who waits has left.
        let task = tokio::spawn(async move {
            let _leaving = Leaving { all, name };
            work.await
        });
        async move {
            task.await
                .unwrap_or_else(|_| Err(Error::Internal("the operation broke".to_owned()).into()))
        }
        .boxed()
        .shared()
    }
}

struct Leaving<R> {
    all: UnderWay<R>,
    name: String,
}

impl<R> Drop for Leaving<R> {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_same_is_done_once_and_another_is_refused() {
        let joins = Arc::new(Joins::default());
        let runs = Arc::new(AtomicU32::new(0));
        let work = || {
            let runs = Arc::clone(&runs);
            async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok(format!("run {}", runs.fetch_add(1, Ordering::SeqCst)))
            }
        };
        let same = || joins.run("a", "x", work());
        let (first, second, other) = tokio::join!(same(), same(), joins.run("a", "y", work()));
        assert_eq!(
            (first.unwrap(), second.unwrap()),
            ("run 0".into(), "run 0".into())
        );
        assert!(other.is_err());
        assert_eq!(same().await.unwrap(), "run 1");
    }

    #[tokio::test]
    async fn it_goes_on_when_the_client_leaves() {
        let joins = Joins::default();
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let _ = tell.send(());
            Ok(String::new())
        };
        let left = tokio::time::timeout(Duration::from_millis(5), joins.run("a", "x", work));
        assert!(left.await.is_err());
        told.await.unwrap();
    }
}
