//! Manifests from the standard input, which is read once to its end.

use std::time::Duration;

use orlop_pool::{Place, Refused};
use tokio::time::sleep;

use super::snapshot::Outlet;
use super::texts::Texts;

const LARGEST: u64 = 10 << 20;

/// Retry delay if no thread can be started.
const AGAIN: Duration = Duration::from_secs(1);

/// The standard input may never end, so it is read on a thread of its own.
static READING: Place = Place::new("reading manifests from standard input", 1, 1, 0);

/// Sends a snapshot of the standard input.
pub(crate) async fn stdin(texts: Texts, outlet: Outlet) {
    let read = || {
        READING.run(|| {
            orlop_fs::read_whole_text(std::io::stdin(), LARGEST)
                .map_err(|error| format!("cannot be read: {error}"))
        })
    };
    say(read, texts, outlet).await;
}

/// Reads the input and retries until a thread can be started, because the input is sent only once.
async fn say<R>(mut read: impl FnMut() -> R, mut texts: Texts, outlet: Outlet)
where
    R: Future<Output = Result<Result<String, String>, Refused>>,
{
    let mut is_late = false;
    let text = loop {
        match read().await {
            Ok(text) => break text,
            Err(Refused::NoThread { source, .. }) => {
                // Send a snapshot with the problem, so that the agent does not wait for this
                // source.
                if !is_late {
                    tracing::warn!(%source, "cannot start a thread to read the manifests on the standard input; \
                         retrying");
                    let why =
                        format!("is not read yet, because no thread can be started: {source}");
                    texts.put("stdin", Err(why));
                    outlet.say(texts.snapshot()).await;
                    is_late = true;
                }
                sleep(AGAIN).await;
            }
            Err(error) => break Err(error.to_string()),
        }
    };
    texts.put("stdin", text.as_deref().map_err(ToString::to_string));
    outlet.say(texts.snapshot()).await;
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::sync::mpsc;

    use super::super::{LastGood, UPDATES};
    use super::*;
    use crate::manifest::SourceKind;

    #[tokio::test]
    async fn manifests_are_read_later_where_no_thread_can_be_started_now() {
        let scratch = tempfile::tempdir().unwrap();
        let kept = LastGood::open(scratch.path().join("kept")).unwrap();
        let (updates, mut receiver) = mpsc::channel(UPDATES);
        let outlet = Outlet { place: 0, updates };
        let want = || Refused::NoThread {
            place: "tests",
            source: std::io::Error::other("pids.max"),
        };
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n\
                   spec: {containers: [{name: c, image: \"i:1\"}]}\n";
        let mut answers = VecDeque::from([Err(want()), Err(want()), Ok(Ok(pod.to_owned()))]);
        let read = || std::future::ready(answers.pop_front().unwrap());
        say(read, Texts::new(SourceKind::File, "n", kept), outlet).await;
        let (_, first) = receiver.recv().await.unwrap();
        assert_eq!(first.pods.len(), 0);
        assert!(first.remarks[0].text.contains("pids.max"), "{first:?}");
        let (_, then) = receiver.recv().await.unwrap();
        assert_eq!((then.pods.len(), then.remarks.len()), (1, 0), "{then:?}");
        assert!(receiver.recv().await.is_none());
    }
}
