//! WebSocket connections whose messages belong to channels.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::frame::{
    self, BINARY, CLOSE, CONTINUATION, Length, MAX_CONTROL, PING, PONG, Start, TEXT, WsError,
    apply_mask,
};
pub(crate) use super::message::Encoding;
use super::message::{CLOSE_CHANNEL, Unpacker};
use super::sink::WsSink;
use crate::flow::{
    Activity, Budget, End, Inbox, Input, Limits, Outbox, Pulse, ReadBuffer, Role, Transport,
};

/// Timeout for writing the last frames when this side closes.
const CLOSING: Duration = Duration::from_secs(2);
/// The status of a normal closure (RFC 6455, section 7.4.1).
const NORMAL: [u8; 2] = 1000_u16.to_be_bytes();
const PROTOCOL_ERROR: [u8; 2] = 1002_u16.to_be_bytes();

/// The channels of a connection that is read in the background until it ends or is dropped.
pub(crate) struct Channels {
    role: Role,
    encoding: Encoding,
    version_5: bool,
    inboxes: Arc<[Arc<Inbox>]>,
    outbox: Arc<Outbox>,
    closed: CancellationToken,
    goodbye: Arc<Goodbye>,
    _reader: AbortOnDropHandle<()>,
    _flusher: AbortOnDropHandle<()>,
}

impl Channels {
    /// Starts with the channels 0 to `count`. `version_5` enables the end of a single channel.
    pub(crate) fn start(
        transport: Transport,
        role: Role,
        encoding: Encoding,
        version_5: bool,
        count: usize,
        limits: Limits,
    ) -> Self {
        let closed = CancellationToken::new();
        let activity = Arc::new(Activity::new());
        let outbox = Outbox::new(transport.writer, role, closed.clone(), activity.clone());
        let budget = Budget::new(limits.connection_bytes);
        let inboxes: Arc<[_]> = (0..count)
            .map(|_| Inbox::new(budget.clone(), limits.stream_bytes))
            .collect();
        let goodbye = Arc::new(Goodbye {
            outbox: outbox.clone(),
            role,
            said: AtomicBool::new(false),
        });
        let demux = Demux {
            goodbye: goodbye.clone(),
            pulse: transport.pulse,
            reader: ReadBuffer::new(transport.reader),
            role,
            version_5,
            unpacker: Unpacker::new(encoding),
            in_message: false,
            inboxes: inboxes.clone(),
            outbox: outbox.clone(),
        };
        let reader = tokio::spawn(demux.run(activity, limits.idle));
        let flusher = {
            let outbox = outbox.clone();
            tokio::spawn(async move { outbox.flush_pending().await })
        };
        Self {
            role,
            encoding,
            version_5,
            inboxes,
            outbox,
            closed,
            goodbye,
            _reader: AbortOnDropHandle::new(reader),
            _flusher: AbortOnDropHandle::new(flusher),
        }
    }

    /// Returns a token that is cancelled when the connection ends.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Returns the input of a channel. It can be taken once; an unused channel must be discarded.
    pub(crate) fn input(&self, channel: u8) -> Input {
        Input::new(self.inboxes[usize::from(channel)].clone(), None)
    }

    /// Returns the output of a channel.
    pub(crate) fn output(&self, channel: u8) -> WsSink {
        let says_close = self.version_5 && self.role == Role::Client;
        WsSink::new(
            self.outbox.clone(),
            self.role,
            self.encoding,
            channel,
            says_close,
        )
    }

    /// Sends an empty message, by which older peers announce the start of streaming.
    pub(crate) async fn announce(&self, channel: u8) -> io::Result<()> {
        self.output(channel).message(&[]).await
    }

    /// Discards all further data of a channel.
    pub(crate) fn discard(&self, channel: u8) {
        self.inboxes[usize::from(channel)].discard();
    }

    /// Sends a close frame, waits up to `linger` for the peer's, then closes.
    pub(crate) async fn finish(self, linger: Duration) {
        self.goodbye.say(NORMAL);
        if tokio::time::timeout(linger, self.closed.cancelled())
            .await
            .is_ok()
        {
            return;
        }
        let _ = tokio::time::timeout(CLOSING, self.outbox.shutdown()).await;
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        self.closed.cancel();
        for inbox in self.inboxes.iter() {
            inbox.end(End::Lost);
        }
    }
}

/// The close frame, to be sent once.
struct Goodbye {
    outbox: Arc<Outbox>,
    role: Role,
    said: AtomicBool,
}

impl Goodbye {
    fn say(&self, status: [u8; 2]) {
        if !self.said.swap(true, Ordering::AcqRel) {
            self.outbox
                .control(|out| frame::control(out, CLOSE, &status, self.role));
        }
    }
}

/// Parses incoming frames and delivers their data to the channels.
struct Demux {
    reader: ReadBuffer,
    role: Role,
    version_5: bool,
    unpacker: Unpacker,
    in_message: bool,
    inboxes: Arc<[Arc<Inbox>]>,
    outbox: Arc<Outbox>,
    goodbye: Arc<Goodbye>,
    pulse: Pulse,
}

#[derive(Debug, thiserror::Error)]
enum DemuxError {
    #[error("the peer disconnected while its data was throttled")]
    Vanished,
    #[error("reading from the peer")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] WsError),
}

impl Demux {
    async fn run(mut self, activity: Arc<Activity>, idle: Duration) {
        let outbox = self.outbox.clone();
        let result = tokio::select! {
            result = self.read_frames(&activity) => result,
            () = activity.idle_for(idle) => {
                tracing::debug!(?idle, "a streaming connection reached the idle timeout; closing it");
                Ok(End::Lost)
            }
            () = outbox.closed().cancelled() => Ok(End::Lost),
        };
        let (end, goodbye) = match result {
            Ok(end) => (end, NORMAL),
            Err(error) => {
                tracing::debug!(%error, "a streaming connection was interrupted");
                (End::Lost, PROTOCOL_ERROR)
            }
        };
        for inbox in self.inboxes.iter() {
            inbox.end(end);
        }
        if !outbox.closed().is_cancelled() {
            self.goodbye.say(goodbye);
            let _ = tokio::time::timeout(CLOSING, outbox.shutdown()).await;
        }
        outbox.closed().cancel();
    }

    async fn read_frames(&mut self, activity: &Activity) -> Result<End, DemuxError> {
        let sender = match self.role {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        };
        while !self.reader.at_end().await? {
            let start = Start::parse(self.reader.array().await?, sender)?;
            let length = match start.length {
                Length::Here(length) => u64::from(length),
                Length::In2Bytes => u64::from(u16::from_be_bytes(self.reader.array().await?)),
                Length::In8Bytes => u64::from_be_bytes(self.reader.array().await?),
            };
            let mask = if start.masked {
                self.reader.array().await?
            } else {
                [0; 4]
            };
            activity.touch();
            match start.opcode {
                CLOSE | PING | PONG => {
                    let payload = self.reader.exactly(length.min(MAX_CONTROL as u64) as usize);
                    let payload = payload.await?;
                    apply_mask(payload, mask, 0);
                    match start.opcode {
                        PING => {
                            let role = self.role;
                            self.outbox
                                .control(|out| frame::control(out, PONG, payload, role));
                        }
                        CLOSE => return Ok(end_for(self.role, payload)),
                        _ => {}
                    }
                }
                opcode => {
                    self.begin(opcode)?;
                    self.payload(length, mask, activity).await?;
                    if start.fin {
                        self.end_message().await?;
                    }
                }
            }
        }
        Ok(End::Lost)
    }

    fn begin(&mut self, opcode: u8) -> Result<(), WsError> {
        let continues = opcode == CONTINUATION;
        debug_assert!(
            continues || opcode == TEXT || opcode == BINARY,
            "others are control frames"
        );
        if continues != self.in_message {
            return Err(WsError::Fragments);
        }
        if !continues {
            self.unpacker.begin();
            self.in_message = true;
        }
        Ok(())
    }

    async fn payload(
        &mut self,
        length: u64,
        mask: [u8; 4],
        activity: &Activity,
    ) -> Result<(), DemuxError> {
        let mut done: u64 = 0;
        while done < length {
            let left = usize::try_from(length - done).unwrap_or(usize::MAX);
            let piece = self.reader.some(left).await?;
            activity.touch();
            apply_mask(piece, mask, (done % 4) as usize);
            done += piece.len() as u64;
            if let Some((channel, data)) = self.unpacker.piece(piece)? {
                tokio::select! {
                    biased;
                    () = deliver(&self.inboxes, self.version_5, channel, data) => {}
                    () = self.pulse.lost() => return Err(DemuxError::Vanished),
                }
            }
        }
        Ok(())
    }

    async fn end_message(&mut self) -> Result<(), DemuxError> {
        self.in_message = false;
        if let Some((channel, data)) = self.unpacker.finish()? {
            tokio::select! {
                biased;
                () = deliver(&self.inboxes, self.version_5, channel, &data) => {}
                () = self.pulse.lost() => return Err(DemuxError::Vanished),
            }
        }
        Ok(())
    }
}

async fn deliver(inboxes: &[Arc<Inbox>], version_5: bool, channel: u8, data: &[u8]) {
    if version_5 && channel == CLOSE_CHANNEL {
        for closed in data {
            if let Some(inbox) = inboxes.get(usize::from(*closed)) {
                inbox.end(End::Eof);
            }
        }
    } else if let Some(inbox) = inboxes.get(usize::from(channel)) {
        // Data of discarded channels is dropped, as peers do.
        inbox.deliver(data).await;
    }
}

/// Returns how the channels end after a close frame. A server's normal closure ends all channels in order; a client
/// has no reason to leave first, so it counts as vanished.
fn end_for(role: Role, payload: &[u8]) -> End {
    let normal = payload.is_empty() || payload.starts_with(&NORMAL);
    if role == Role::Client && normal {
        End::Eof
    } else {
        End::Lost
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

    use super::*;

    /// A closed peer: all writes to it fail.
    struct Closed;

    impl AsyncWrite for Closed {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn the_last_words_of_a_server_that_has_closed_are_read() {
        let (mut server, reader) = tokio::io::duplex(1 << 16);
        let transport = Transport {
            reader: Box::new(reader),
            writer: Box::new(Closed),
            pulse: Pulse::none(),
        };
        let limits = Limits {
            streams: 16,
            stream_bytes: 1 << 20,
            connection_bytes: 8 << 20,
            idle: Duration::from_mins(10),
        };
        let channels = Channels::start(transport, Role::Client, Encoding::Binary, true, 5, limits);
        let mut stdin = channels.output(0);
        stdin.write(b"to nobody").await.expect_err("it is closed");
        let peer = async {
            for _ in 0..50 {
                let mut message = vec![0x82, 126, 0xea, 0x61, 1];
                message.resize(5 + 60_000, 7);
                server.write_all(&message).await.unwrap();
            }
            server.write_all(&[0x88, 2, 0x03, 0xe8]).await.unwrap();
        };
        let mut stdout = channels.input(1);
        let mut all = Vec::new();
        let (read, ()) = tokio::join!(stdout.read_to_end(&mut all), peer);
        read.expect("all came");
        assert_eq!(all.len(), 3_000_000);
    }
}
