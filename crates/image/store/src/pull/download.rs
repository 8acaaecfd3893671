//! Fills an ingest from the registry: one connection for a small blob, several for a large
//! one if the host serves ranges.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;

use super::ingest::Ingest;
use crate::blocking::blocking;
use crate::manifest::Descriptor;
use crate::registry::{Attempt, Body, Capability, Host, Remote, Try};
use crate::{Error, Result};

/// Bytes gathered before they go to disk.
const BATCH: usize = 512 << 10;
/// Bytes are written after so long at the latest.
const LINGER: Duration = Duration::from_millis(200);

/// Downloads what the ingest lacks.
pub(super) async fn download(
    what: &str,
    remote: &Remote,
    blob: &Descriptor,
    ingest: &Arc<Ingest>,
    connections: usize,
) -> Result<()> {
    let ranges = Ranges::default();
    let work = Work {
        what,
        remote,
        blob,
        ingest,
        ranges: &ranges,
    };
    let mut workers = FuturesUnordered::new();
    workers.push(work.pieces());
    let mut spread = false;
    loop {
        tokio::select! {
            () = ranges.proven.notified(), if !spread => {
                spread = true;
                for _ in 1..connections.max(1) {
                    workers.push(work.pieces());
                }
            }
            done = workers.next() => match done {
                Some(done) => done?,
                None => return Ok(()),
            },
        }
    }
}

/// What is known about the host's serving of ranges.
#[derive(Default)]
struct Ranges {
    proven: Notify,
}

#[derive(Clone, Copy)]
struct Work<'a> {
    what: &'a str,
    remote: &'a Remote,
    blob: &'a Descriptor,
    ingest: &'a Arc<Ingest>,
    ranges: &'a Ranges,
}

/// One piece, to be tried at each host.
struct Piece<'a> {
    work: Work<'a>,
    start: u64,
    end: u64,
}

impl Try for Piece<'_> {
    type Done = ();

    async fn once(&self, _: &Remote, host: &Host) -> Result<(), Attempt> {
        self.work.piece(host, self.start, self.end).await
    }
}

impl Work<'_> {
    /// Fetches one piece after the other until none is left.
    async fn pieces(self) -> Result<()> {
        while let Some((start, end)) = self.ingest.take_piece() {
            let piece = Piece {
                work: self,
                start,
                end,
            };
            let fetched = self
                .remote
                .attempt(Capability::Pull, self.ingest.received(), &piece)
                .await;
            match fetched {
                Err(Error::NotInRegistry { .. }) if !self.blob.urls.is_empty() => {
                    return self.foreign().await;
                }
                other => other?,
            }
        }
        Ok(())
    }

    async fn piece(&self, host: &Host, start: u64, end: u64) -> Result<(), Attempt> {
        let from = self.ingest.filled_to(start);
        if from >= end {
            // A host without ranges served it together with an earlier piece.
            return Ok(());
        }
        let size = self.ingest.size();
        let mut body = self
            .remote
            .blob(self.what, host, self.blob.digest, from, end, size)
            .await?;
        if body.is_part {
            if end < size || start > 0 {
                self.ranges.proven.notify_one();
            }
            self.receive(&mut body, from, end).await
        } else {
            self.receive(&mut body, from, size).await
        }
    }

    /// Nondistributable layers may be elsewhere, whole.
    async fn foreign(&self) -> Result<()> {
        let mut last = None;
        for url in &self.blob.urls {
            let fetched = async {
                let mut body = self.remote.foreign_blob(self.what, url).await?;
                let from = self.ingest.filled_to(0);
                self.receive(&mut body, from, self.ingest.size()).await
            };
            match fetched.await {
                Ok(()) => return Ok(()),
                Err(Attempt::Abort(error)) => return Err(error),
                Err(
                    Attempt::Final(error)
                    | Attempt::Transient(error, _)
                    | Attempt::Slow(error)
                    | Attempt::Unreachable(error),
                ) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::invalid(self.what, "no registry has it")))
    }

    async fn write(&self, at: u64, batch: &mut Vec<Bytes>) -> Result<()> {
        let (ingest, pieces) = (Arc::clone(self.ingest), std::mem::take(batch));
        blocking(move || ingest.write(at, &pieces)).await
    }

    /// Writes the body's part from `at` to `end` as it comes.
    async fn receive(&self, body: &mut Body, mut at: u64, end: u64) -> Result<(), Attempt> {
        let mut position = body.offset;
        let mut batch = Vec::new();
        let mut gathered = 0;
        loop {
            let next = {
                let mut next = pin!(body.next());
                loop {
                    tokio::select! {
                        next = &mut next => break next,
                        // A slow download keeps nothing in memory.
                        () = tokio::time::sleep(LINGER), if gathered > 0 => {
                            self.write(at, &mut batch).await?;
                            at += gathered as u64;
                            position += gathered as u64;
                            gathered = 0;
                        }
                    }
                }
            };
            let ended = !matches!(next, Ok(Some(_)));
            let next = match next {
                Ok(Some(mut bytes)) => {
                    // A host that serves everything is listened to until the part that lacks.
                    if gathered == 0 && position < at {
                        let skip = (at - position).min(bytes.len() as u64);
                        position += skip;
                        drop(bytes.split_to(usize::try_from(skip).unwrap_or(0)));
                    }
                    gathered += bytes.len();
                    if position + gathered as u64 > end {
                        return Err(body.too_long());
                    }
                    if !bytes.is_empty() {
                        batch.push(bytes);
                    }
                    Ok(Some(()))
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            if gathered > 0 && (gathered >= BATCH || ended) {
                self.write(at, &mut batch).await?;
                at += gathered as u64;
                position += gathered as u64;
                gathered = 0;
            }
            match next {
                Ok(Some(())) => {}
                Ok(None) if at == end => return Ok(()),
                Ok(None) => return Err(body.cut_short()),
                Err(error) => return Err(error),
            }
        }
    }
}
