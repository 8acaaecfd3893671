//! The one writer of a connection, shared by all its streams.

use std::io::{self, IoSlice};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use super::role::Role;
use super::transport::Writer;

/// Replies that may wait for a peer that does not read; past it the connection ends.
const MAX_PENDING: usize = 256 * 1024;

/// Writes frames to the transport, one whole frame at a time.
///
/// Data is written by the task that has it, straight from its buffer; small control frames are
/// queued instead, because whoever makes them (the connection's reader, a destructor) must never
/// wait for the peer. The next data frame carries them along, or [`Outbox::flush_pending`] does.
pub(crate) struct Outbox {
    pending: Mutex<Vec<u8>>,
    queued: Notify,
    writer: tokio::sync::Mutex<Writer>,
    role: Role,
    closed: CancellationToken,
    /// Nothing can be written any more.
    broken: CancellationToken,
    activity: Arc<Activity>,
}

impl Outbox {
    pub(crate) fn new(
        writer: Writer,
        role: Role,
        closed: CancellationToken,
        activity: Arc<Activity>,
    ) -> Arc<Self> {
        Arc::new(Self {
            role,
            broken: closed.child_token(),
            pending: Mutex::default(),
            queued: Notify::new(),
            writer: tokio::sync::Mutex::new(writer),
            closed,
            activity,
        })
    }

    /// Cancelled when the connection is over, for whatever reason.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Writes one frame: `head`, then `payload`. Ends with an error once the connection is over.
    pub(crate) async fn frame(&self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        tokio::select! {
            biased;
            () = self.broken.cancelled() => Err(connection_over()),
            result = self.write(head, payload) => result,
        }
    }

    /// Appends control frames in order; `encode` runs under the lock that keeps the order.
    pub(crate) fn control(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut pending = self.lock();
        encode(&mut pending);
        if self.broken.is_cancelled() {
            pending.clear();
            return;
        }
        let overflow = pending.len() > MAX_PENDING;
        drop(pending);
        if overflow {
            tracing::debug!("a streaming client does not read replies; closing the connection");
            self.closed.cancel();
        } else {
            self.queued.notify_one();
        }
    }

    /// Writes queued control frames until the connection is over.
    pub(crate) async fn flush_pending(&self) {
        loop {
            self.queued.notified().await;
            let result = self.frame(&[], &[]).await;
            if result.is_err() {
                return;
            }
        }
    }

    /// Writes what is queued and says that nothing more comes.
    pub(crate) async fn shutdown(&self) -> io::Result<()> {
        self.frame(&[], &[]).await?;
        self.writer.lock().await.shutdown().await
    }

    async fn write(&self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        let mut writer = self.writer.lock().await;
        // From here on a half-written frame would garble all that follows.
        let unfinished = CloseOnDrop(&self.closed);
        let pending = std::mem::take(&mut *self.lock());
        let written = write_all(&mut *writer, [&pending, head, payload], &self.activity).await;
        std::mem::forget(unfinished);
        drop(writer);
        if written.is_err() {
            self.fail();
        }
        self.give_back(pending);
        written
    }

    /// A server's client has gone. A client's server may have closed after its last words, which
    /// are still to be read: only the writing is over.
    fn fail(&self) {
        match self.role {
            Role::Server => self.closed.cancel(),
            Role::Client => self.broken.cancel(),
        }
    }

    /// Keeps a small buffer for the next control frames.
    fn give_back(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() == 0 || buffer.capacity() > 1024 {
            return;
        }
        buffer.clear();
        let mut pending = self.lock();
        if pending.capacity() == 0 {
            *pending = buffer;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.pending.lock()
    }
}

struct CloseOnDrop<'a>(&'a CancellationToken);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

pub(crate) fn connection_over() -> io::Error {
    io::Error::new(
        io::ErrorKind::BrokenPipe,
        "the connection to the peer is closed",
    )
}

async fn write_all(
    writer: &mut (impl AsyncWrite + Unpin),
    parts: [&[u8]; 3],
    activity: &Activity,
) -> io::Result<()> {
    let mut slices = parts.map(IoSlice::new);
    let mut rest = &mut slices[..];
    // Empty parts in front would make a write of nothing look like a closed peer.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let written = writer.write_vectored(rest).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        activity.touch();
        IoSlice::advance_slices(&mut rest, written);
    }
    writer.flush().await
}
