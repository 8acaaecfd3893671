//! The node's own work, which waits for its disk or its kernel and for nobody else.

use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

/// The work panicked, or the runtime ended before it began.
#[derive(Debug, thiserror::Error)]
#[error("the operation ended abnormally{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
pub struct Ended(Option<JoinError>);

/// Runs blocking work on one of the runtime's threads for that. It goes on if nobody waits for it.
pub fn blocking<T, F>(work: F) -> impl Future<Output = Result<T, Ended>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (tell, told) = oneshot::channel();
    // Who waits for it must not be as large as the work.
    let work: Box<dyn FnOnce() + Send> = Box::new(move || {
        let _ = tell.send(work());
    });
    async move {
        let task = begin(work);
        match told.await {
            Ok(done) => Ok(done),
            Err(_) => Err(Ended(task.await.err())),
        }
    }
}

/// What the runtime needs around a task is some kilobytes of code for each type of one, and there are
/// hundreds: these are all of one type.
fn begin(work: Box<dyn FnOnce() + Send>) -> JoinHandle<()> {
    spawn_blocking(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_outcome_comes_back_and_a_panic_is_told() {
        assert_eq!(blocking(|| 7).await.unwrap(), 7);
        let error = blocking(|| panic!("on purpose")).await.unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("abnormally") && said.contains("panic"),
            "{said}"
        );
    }
}
