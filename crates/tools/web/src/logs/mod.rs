//! Streaming of log files at the paths that the endpoint reports.
//!
//! | module | content |
//! |---|---|
//! | `reader` | reader of one log |
//! | `line` | parser of lines |

mod line;
mod reader;

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use orlop_cri_api::client::{Connection, RuntimeClient};
use orlop_cri_api::v1::ContainerState;
use serde_json::json;
use tokio::sync::mpsc::{self, Sender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::answer::{self, Answer};
use crate::events::{self, event};
use crate::node::{MOST_LOGS, Node};
use crate::query::Query;
use reader::Reader;

/// Maximum number of containers in one stream.
const MOST_CONTAINERS: usize = 32;

/// Default number of lines from the end.
const USUAL_TAIL: u32 = 1000;
const LONGEST_TAIL: u32 = 100_000;

/// Maximum number of batches queued for one web page that reads slowly.
const BEHIND: usize = 4;

/// Timeout for a page that reads nothing.
const STALL: Duration = Duration::from_secs(20);

/// Poll intervals of files and of their containers.
const GLANCE: Duration = Duration::from_millis(250);
const LOOK: Duration = Duration::from_secs(2);

/// Streams the logs of the containers in a request.
pub(crate) fn open(node: &Node, query: &Query, is_head: bool) -> Answer {
    let ids = named(query);
    if ids.is_empty() || ids.len() > MOST_CONTAINERS {
        let text =
            format!("specify 1 to {MOST_CONTAINERS} containers, as in /api/logs?container=ID");
        return answer::failure(StatusCode::BAD_REQUEST, &text);
    }
    if is_head {
        return answer::events(events::none());
    }
    let Ok(place) = node.logs.clone().try_acquire_owned() else {
        let text = format!("the limit of {MOST_LOGS} followed logs is reached; close one of them");
        return answer::failure(StatusCode::SERVICE_UNAVAILABLE, &text);
    };
    let tail = query.number("tail").unwrap_or(USUAL_TAIL).min(LONGEST_TAIL);
    let (sender, receiver) = mpsc::channel(BEHIND);
    let following = tokio::spawn(follow(node.cri.clone(), ids, tail, sender));
    answer::events(events::body(receiver, (place, Following(following))))
}

/// Returns the containers in a request, without duplicates.
fn named(query: &Query) -> Vec<String> {
    let mut named = HashSet::new();
    let ids = query.all("container").filter(|id| named.insert(*id));
    ids.map(str::to_owned).collect()
}

/// The streaming task, aborted when the page is closed.
struct Following(JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The page is closed.
struct Left;

/// One streamed log.
struct Log {
    id: String,
    /// `None` while a thread uses it.
    reader: Option<Reader>,
    /// The container has exited, so the file is complete.
    is_last: bool,
    /// Everything that existed when the log was opened has been read.
    is_caught: bool,
}

async fn follow(cri: Connection, ids: Vec<String>, tail: u32, to: Sender<Bytes>) {
    let client = cri.runtime();
    // A closed page is no error.
    let _: Result<(), Left> = all(&client, ids, tail, &Pages(to)).await;
}

/// Sender of lines.
struct Pages(Sender<Bytes>);

impl Pages {
    async fn tell(&self, kind: &str, data: &str) -> Result<(), Left> {
        match timeout(STALL, self.0.send(event(kind, data))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Left),
        }
    }

    async fn ended(&self, id: &str, why: &str) -> Result<(), Left> {
        let data = json!({ "container": id, "why": why });
        self.tell("ended", &data.to_string()).await
    }
}

async fn all(
    client: &RuntimeClient,
    ids: Vec<String>,
    tail: u32,
    page: &Pages,
) -> Result<(), Left> {
    let mut logs = Vec::new();
    for id in ids {
        match begin(client, &id, tail).await {
            Ok(log) => logs.push(log),
            Err(why) => page.ended(&id, &why).await?,
        }
    }
    let ask = |id| has_ended(client.clone(), id);
    read(logs, page, ask).await
}

/// Reads the logs until all containers have exited.
async fn read<Ask: Future<Output = bool>>(
    mut logs: Vec<Log>,
    page: &Pages,
    has_ended: impl Fn(String) -> Ask,
) -> Result<(), Left> {
    let mut is_caught = false;
    let mut looked = Instant::now();
    loop {
        let mut is_more = false;
        let mut kept = Vec::with_capacity(logs.len());
        for mut log in logs {
            let (reader, read) = batch(log.reader.take()).await;
            // A file that grows all the time has no last line.
            let is_behind = reader.as_ref().is_some_and(Reader::is_behind);
            log.is_caught = log.is_caught || !is_behind || !matches!(read, Ok(Some(_)));
            log.reader = reader;
            match read {
                Ok(Some(lines)) => {
                    let container = serde_json::Value::from(log.id.as_str());
                    let data = format!("{{\"container\":{container},\"lines\":{lines}}}");
                    page.tell("lines", &data).await?;
                    is_more = true;
                    kept.push(log);
                }
                Ok(None) if log.is_last => {
                    page.ended(&log.id, "the container has exited").await?;
                }
                Ok(None) => kept.push(log),
                Err(why) => page.ended(&log.id, &why).await?,
            }
        }
        logs = kept;
        if !is_caught && logs.iter().all(|log| log.is_caught) {
            page.tell("caught", "{}").await?;
            is_caught = true;
        }
        if logs.is_empty() {
            return Ok(());
        }
        if !is_more {
            sleep(GLANCE).await;
        }
        if looked.elapsed() >= LOOK {
            for log in &mut logs {
                log.is_last = log.is_last || has_ended(log.id.clone()).await;
            }
            looked = Instant::now();
        }
    }
}

async fn begin(client: &RuntimeClient, id: &str, tail: u32) -> Result<Log, String> {
    let answer = client.container_status(id, false).await;
    let status = answer.map_err(|error| error.to_string())?.status;
    let status = status.unwrap_or_default();
    if status.log_path.is_empty() {
        let why = "the container has no log, because the pod or the container was created without \
                   a log path";
        return Err(why.to_owned());
    }
    let is_last = status.state() == ContainerState::ContainerExited;
    let (path, own) = (status.log_path.clone(), status.id.clone());
    let opening = orlop_pool::blocking(move || Reader::open(path.as_ref(), &own, tail));
    let reader = opening
        .await
        .map_err(|_| "cannot read the log: the reader stopped unexpectedly".to_owned())?;
    Ok(Log {
        id: id.to_owned(),
        reader: Some(reader.map_err(|error| error.to_string())?),
        is_last,
        is_caught: false,
    })
}

/// Returns the next lines as JSON, and the reader. Reading blocks.
async fn batch(reader: Option<Reader>) -> (Option<Reader>, Result<Option<String>, String>) {
    let Some(mut reader) = reader else {
        return (
            None,
            Err("cannot read the log: the reader stopped unexpectedly".to_owned()),
        );
    };
    let read = orlop_pool::blocking(move || {
        let batch = reader.batch().map_err(|error| error.to_string());
        (Some(reader), batch)
    });
    let broken = |_| {
        (
            None,
            Err("cannot read the log: the reader stopped unexpectedly".to_owned()),
        )
    };
    read.await.unwrap_or_else(broken)
}

/// Returns whether a container has exited. A runtime that does not respond may be restarting while its containers run
/// on.
async fn has_ended(client: RuntimeClient, id: String) -> bool {
    match client.container_status(&id, false).await {
        Ok(answer) => {
            let status = answer.status.unwrap_or_default();
            status.state() == ContainerState::ContainerExited
        }
        Err(error) => error.is_not_found(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_container_is_followed_once_however_often_it_is_named() {
        let query = Query::read(Some("container=a&container=b&container=a"));
        assert_eq!(named(&query), ["a", "b"]);
    }

    fn grow(path: &Path) {
        let lines = "2026-01-02T03:04:05Z stdout F more\n".repeat(1000);
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(path).unwrap();
        file.write_all(lines.as_bytes()).unwrap();
    }

    #[tokio::test]
    async fn beside_a_log_that_grows_without_end_others_are_caught_up_with_and_end() {
        let dir = tempfile::tempdir().unwrap();
        let log = |id: &str| {
            let path = dir.path().join(id);
            grow(&path);
            Log {
                id: id.to_owned(),
                reader: Some(Reader::open(&path, "", 2000).unwrap()),
                is_last: false,
                is_caught: false,
            }
        };
        let logs = vec![log("grows"), log("ends")];
        let grown = dir.path().join("grows");
        let (sender, mut receiver) = mpsc::channel(1);
        let reading = tokio::spawn(async move {
            let page = Pages(sender);
            let _: Result<(), Left> = read(logs, &page, async |id| id == "ends").await;
        });
        let begin = Instant::now();
        let (mut is_caught, mut told) = (false, 0);
        loop {
            // Two batches for each log.
            grow(&grown);
            let bytes = receiver.recv().await.unwrap();
            told += 1;
            if bytes.starts_with(b"event: ended\n") {
                break;
            }
            is_caught |= bytes.starts_with(b"event: caught\n");
            assert!(is_caught || told < 20, "it is never caught up with");
            assert!(begin.elapsed() < 5 * LOOK, "the end is not noticed");
            sleep(Duration::from_millis(20)).await;
        }
        reading.abort();
    }
}
