//! Keepers that hang: noticed, so that nobody waits for one for minutes.

use std::time::Duration;

use orlop_text::duration::Timeout;
use tokio::time::{sleep, timeout};

use crate::error::{Error, Result};
use crate::record::container::Container;
use crate::record::pod::Pod;

/// A keeper that leaves this many questions in a row unanswered hangs. After one the daemon may itself have been
/// stopped, or had no processor, while the answer lay there.
const QUESTIONS: u32 = 2;

/// The time for an answer. All of them are shorter than any request's, so that none of those fails before.
const ANSWER_LIMIT: Timeout = Timeout::from_secs(8);

/// The pause before it is asked, and asked again once it has answered.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Does something to a container of a pod that goes on, in which its keeper has a part; says what is wrong, and what
/// helps, where that hangs. The work may be given up anywhere.
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
    // Most of what is waited for meanwhile is done before it is asked.
    unanswered(|| async {
        match pod.now().keeper {
            Some(keeper) => timeout(ANSWER_LIMIT.get(), keeper.list()).await.is_ok(),
            None => true,
        }
    })
    .await;
}

/// Returns once so many questions in a row had no answer.
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
