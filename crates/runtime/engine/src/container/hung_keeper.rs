//! Detection of keepers that hang, so that requests do not wait minutes for them.

use std::time::Duration;

use orlop_text::duration::Timeout;
use tokio::time::{sleep, timeout};

use crate::error::{Error, Result};
use crate::record::container::Container;
use crate::record::pod::Pod;

/// Number of consecutive requests without an answer after which a keeper counts as hung. A single one may be missed
/// because the daemon itself was stopped or had no CPU time.
const QUESTIONS: u32 = 2;

/// Time limit for one answer. All of them together are shorter than the time limit of any request.
const ANSWER_LIMIT: Timeout = Timeout::from_secs(8);

/// Pause before the first request, and after each one that was answered.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Performs an operation on a container that involves its keeper. If the keeper hangs, returns an error that says so
/// and how to recover. The operation must be safe to cancel at any point.
pub async fn unless_hangs<T>(
    container: &Container,
    doing: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        done = work => done,
        () = hangs(&container.pod) => Err(Error::Timeout(format!(
            "{doing} container {}: the keeper of pod sandbox {} does not respond; stop the pod \
             sandbox, which stops the keeper and all its containers, then try again",
            container.id, container.pod.id
        ))
        .into()),
    }
}

/// Returns once a pod's keeper hangs.
pub async fn hangs(pod: &Pod) {
    // Most operations complete before the first request is sent.
    unanswered(|| async {
        match pod.now().keeper {
            Some(keeper) => timeout(ANSWER_LIMIT.get(), keeper.list()).await.is_ok(),
            None => true,
        }
    })
    .await;
}

/// Returns once [`QUESTIONS`] consecutive requests had no answer.
async fn unanswered<F: Future<Output = bool>>(ask: impl Fn() -> F) {
    let mut in_a_row = 0;
    while in_a_row < QUESTIONS {
        if in_a_row == 0 {
            sleep(ASK_AGAIN).await;
        }
        in_a_row = if ask().await { 0 } else { in_a_row + 1 };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn a_keeper_hangs_when_two_questions_in_a_row_have_no_answer() {
        let answers = Mutex::new([false, true, false, false].into_iter());
        unanswered(|| async { answers.lock().unwrap().next().expect("it hangs by now") }).await;
        assert_eq!(
            answers.into_inner().unwrap().next(),
            None,
            "it was given up"
        );
    }
}
