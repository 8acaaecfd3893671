//! Fetches a range of a layer with its registry's client, and verifies it chunk by chunk.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::registry::{Attempt, Body, Capability, Host, Remote, Try};
use crate::{Digest, Error, Result};

/// A byte range of a blob.
pub(crate) struct Part {
    /// Name of the blob for messages.
    pub(crate) what: String,
    pub(crate) blob: Digest,
    /// Size of the whole blob in bytes.
    pub(crate) size: u64,
    pub(crate) range: Range<u64>,
}

/// A check of fetched bytes. If it fails, the next host is asked.
pub(crate) trait Judge: Send + Sync {
    /// The result of a successful check.
    type Verdict: Send;

    fn judge(
        &self,
        host: &str,
        bytes: Vec<u8>,
    ) -> impl Future<Output = Result<Self::Verdict, Attempt>> + Send;
}

/// Fetches the part from the first host whose bytes the judge accepts.
pub(crate) async fn fetch<J: Judge>(remote: &Remote, part: &Part, judge: &J) -> Result<J::Verdict> {
    let came = AtomicU64::new(0);
    let get = Get {
        part,
        judge,
        came: &came,
    };
    remote.attempt(Capability::Pull, &came, &get).await
}

struct Get<'a, J> {
    part: &'a Part,
    judge: &'a J,
    /// Number of bytes received.
    came: &'a AtomicU64,
}

impl<J: Judge> Try for Get<'_, J> {
    type Done = J::Verdict;

    async fn once(&self, remote: &Remote, host: &Host) -> Result<J::Verdict, Attempt> {
        let Part {
            what,
            blob,
            size,
            range,
        } = self.part;
        let body = remote.blob(what, host, *blob, range.start, range.end, *size);
        let bytes = self.read(body.await?).await?;
        self.judge.judge(&host.name(), bytes).await
    }
}

impl<J> Get<'_, J> {
    async fn read(&self, mut body: Body) -> Result<Vec<u8>, Attempt> {
        let Part { range, size, .. } = self.part;
        if !body.is_part && (range.start > 0 || range.end < *size) {
            return Err(body.protocol("it sent the whole layer instead of the requested range"));
        }
        let wanted = usize::try_from(range.end - range.start)
            .map_err(|_| Error::too_large("a part of a layer", "the address space"))?;
        let mut bytes = Vec::with_capacity(wanted);
        while bytes.len() < wanted {
            let Some(more) = body.next().await? else {
                return Err(body.cut_short());
            };
            if bytes.len() + more.len() > wanted {
                return Err(body.too_long());
            }
            bytes.extend_from_slice(&more);
            self.came.fetch_add(more.len() as u64, Ordering::Relaxed);
        }
        Ok(bytes)
    }
}

/// A judge that accepts all bytes.
pub(crate) struct Anything;

impl Judge for Anything {
    type Verdict = Vec<u8>;

    async fn judge(&self, _: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Attempt> {
        Ok(bytes)
    }
}

/// Runs work on a blocking thread. An error of the work counts as a fault of the host.
pub(crate) async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T, Attempt> {
    match crate::blocking::answering(work).await {
        Err(error @ (Error::Protocol { .. } | Error::InvalidImage { .. })) => {
            Err(Attempt::Final(error))
        }
        done => done.map_err(Attempt::Abort),
    }
}

/// Fetches from the first of several sources that delivers. A slow source gets a competitor, and moves to the end of
/// the order if the competitor wins. If all fail, returns the error of the last one.
pub(crate) async fn from_any<J: Judge>(
    remotes: &[Arc<Remote>],
    part: &Part,
    judge: &J,
) -> Result<J::Verdict> {
    let mut order: Vec<&Arc<Remote>> = remotes.iter().collect();
    order.sort_by_key(|remote| remote.is_slow());
    let mut sources = order.into_iter();
    let mut asked: Vec<&Arc<Remote>> = Vec::new();
    let mut answers = FuturesUnordered::new();
    let mut last = None;
    let patience = patience(&part.range);
    loop {
        if answers.is_empty() {
            let Some(remote) = sources.next() else { break };
            asked.push(remote);
            answers.push(ask(remote, part, judge));
        }
        let answer = tokio::time::timeout(patience, answers.next());
        let (remote, fetched) = match answer.await {
            Ok(Some(answer)) => answer,
            Ok(None) => continue,
            Err(_) => match sources.next() {
                Some(competitor) => {
                    asked.push(competitor);
                    answers.push(ask(competitor, part, judge));
                    continue;
                }
                // All sources are asked already.
                None => match answers.next().await {
                    Some(answer) => answer,
                    None => continue,
                },
            },
        };
        match fetched {
            Ok(done) => {
                let earlier = asked.iter().take_while(|it| !Arc::ptr_eq(it, remote));
                earlier.for_each(|slower| slower.note_slow());
                return Ok(done);
            }
            // A disk error is not the fault of a source.
            Err(error @ (Error::DiskFull { .. } | Error::Store { .. })) => return Err(error),
            Err(error) => {
                if let Error::Unauthenticated { .. } | Error::PermissionDenied { .. } = error {
                    remote.note_refusal();
                }
                last = Some(error);
            }
        }
    }
    Err(last.unwrap_or_else(|| {
        Error::Cancelled(format!(
            "fetching {}, whose registry is not known,",
            part.what
        ))
    }))
}

async fn ask<'a, J: Judge>(
    remote: &'a Arc<Remote>,
    part: &Part,
    judge: &J,
) -> (&'a Arc<Remote>, Result<J::Verdict>) {
    (remote, fetch(remote, part, judge).await)
}

/// Returns the time that a source has before it gets a competitor.
fn patience(range: &Range<u64>) -> Duration {
    let mebibytes = (range.end - range.start) >> 20;
    Duration::from_secs(1 + mebibytes)
}
