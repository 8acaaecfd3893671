//! Fills an ingest from the registry. Uses one connection for a small blob, and several for a large one if the host
//! serves ranges.

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

/// Number of bytes collected before a write to disk.
const BATCH: usize = 512 << 10;
/// Maximum time that received bytes wait for a write.
const LINGER: Duration = Duration::from_millis(200);

/// Downloads the missing bytes of the ingest.
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

/// Shared notification that the host has proven to serve ranges.
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

/// One piece of a blob, which is tried at each host.
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
    /// Fetches pieces until none is left.
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
            // A host without range support already sent this piece with an earlier one.
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

    /// Downloads a nondistributable layer as a whole from one of its URLs.
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

    /// Writes the received bytes from `at` to `end`.
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
                        // A slow download must not hold bytes in memory.
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
                    // A host without range support sends all bytes: skip those before the missing part.
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
