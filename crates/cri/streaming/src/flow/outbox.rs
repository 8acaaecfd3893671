//! The writer of a connection, shared by all its streams.

use std::io::{self, IoSlice};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use super::role::Role;
use super::transport::Writer;

/// Maximum size of queued replies if the peer does not read; beyond it the connection is closed.
const MAX_PENDING: usize = 256 * 1024;

/// Writes whole frames to the transport, one at a time.
///
/// A task writes its data frames itself, straight from its buffer. Small control frames are queued, because their
/// senders (the connection's reader, a destructor) must never wait for the peer. The next data frame carries them
/// along, or [`Outbox::flush_pending`] writes them.
pub(crate) struct Outbox {
    pending: Mutex<Vec<u8>>,
    queued: Notify,
    writer: tokio::sync::Mutex<Writer>,
    role: Role,
    closed: CancellationToken,
    /// Cancelled when writing has failed.
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

    /// Returns a token that is cancelled when the connection ends for any reason.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Writes a frame: `head`, then `payload`. Returns an error once the connection has ended.
    pub(crate) async fn frame(&self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        tokio::select! {
            biased;
            () = self.broken.cancelled() => Err(connection_over()),
            result = self.write(head, payload) => result,
        }
    }

    /// Queues control frames in order; `encode` runs under the lock that keeps the order.
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

    /// Writes queued control frames until the connection ends.
    pub(crate) async fn flush_pending(&self) {
        loop {
            self.queued.notified().await;
            let result = self.frame(&[], &[]).await;
            if result.is_err() {
                return;
            }
        }
    }

    /// Writes the queue and shuts down the writing direction.
    pub(crate) async fn shutdown(&self) -> io::Result<()> {
        self.frame(&[], &[]).await?;
        self.writer.lock().await.shutdown().await
    }

    async fn write(&self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        let mut writer = self.writer.lock().await;
        // From here on a partially written frame would corrupt the stream.
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

    /// Marks writing as failed. A server then ends the connection. A client only stops writing: its server may have
    /// closed after data that is still to be read.
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
    // Without this, an empty first slice would make a write of zero bytes look like a closed peer.
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
