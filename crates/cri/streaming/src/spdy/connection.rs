//! SPDY connections: their streams, and the task that reads them.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::control::{self, Control, ResetCode};
use super::frame::{DataHead, FrameError, HEAD_LEN, Head};
use super::headers::{Deflater, Headers, Inflater};
use super::stream::{SpdyStream, StreamState};
use super::window::{ReceiveWindow, Refill, SendWindows, session_growth};
use crate::flow::{
    Activity, Budget, End, Inbox, Limits, Outbox, Pulse, ReadBuffer, Role, Transport,
};

/// Timeout for writing the last frames when this side closes.
const CLOSING: Duration = Duration::from_secs(2);

/// A connection that is read in the background until it ends or is dropped.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    incoming: mpsc::Receiver<SpdyStream>,
    _reader: AbortOnDropHandle<()>,
    _flusher: AbortOnDropHandle<()>,
}

/// State that the streams of a connection share.
pub(super) struct Shared {
    role: Role,
    limits: Limits,
    pub(super) outbox: Arc<Outbox>,
    pub(super) windows: SendWindows,
    pub(super) received: ReceiveWindow,
    budget: Arc<Budget>,
    deflater: Mutex<Deflater>,
    streams: Mutex<Streams>,
    closed: CancellationToken,
}

struct Streams {
    open: HashMap<u32, Arc<StreamState>>,
    last_remote: u32,
    next_local: u32,
    leaving: bool,
}

/// The reason why a stream could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("the connection to the peer is closed")]
    Closed,
    #[error("the peer refused a stream")]
    Refused,
    #[error("the connection has no stream IDs left")]
    Exhausted,
}

impl Connection {
    pub(crate) fn start(transport: Transport, role: Role, limits: Limits) -> Self {
        let closed = CancellationToken::new();
        let activity = Arc::new(Activity::new());
        let outbox = Outbox::new(transport.writer, role, closed.clone(), activity.clone());
        let shared = Arc::new(Shared {
            role,
            limits,
            outbox: outbox.clone(),
            windows: SendWindows::new(),
            received: ReceiveWindow::new(limits.connection_bytes),
            budget: Budget::new(limits.connection_bytes),
            deflater: Mutex::new(Deflater::default()),
            streams: Mutex::new(Streams {
                open: HashMap::new(),
                last_remote: 0,
                next_local: if role == Role::Client { 1 } else { 2 },
                leaving: false,
            }),
            closed: closed.clone(),
        });
        outbox.control(|out| {
            control::initial_window(out, limits.stream_bytes as u32);
            control::window_update(out, 0, session_growth(limits.connection_bytes));
        });
        let (accept, incoming) = mpsc::channel(limits.streams.max(1));
        let reader = ReadBuffer::new(transport.reader);
        let demux = Demux {
            shared: shared.clone(),
            reader,
            inflater: Inflater::new(),
            accept,
            pulse: transport.pulse,
        };
        let reader = tokio::spawn(demux.run(activity));
        let flusher = tokio::spawn(async move { outbox.flush_pending().await });
        Self {
            shared,
            incoming,
            _reader: AbortOnDropHandle::new(reader),
            _flusher: AbortOnDropHandle::new(flusher),
        }
    }

    /// Returns a token that is cancelled when the connection ends.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.shared.closed
    }

    /// Waits for the next stream that the peer opens; `None` when the connection has ended.
    pub(crate) async fn accept(&mut self) -> Option<SpdyStream> {
        self.incoming.recv().await
    }

    /// Returns a handle to open streams.
    pub(crate) fn opener(&self) -> Opener {
        Opener(self.shared.clone())
    }

    /// Waits up to `linger` for the peer to close, then closes. Closing first could lose data that the peer has not
    /// read yet.
    pub(crate) async fn finish(mut self, linger: Duration) {
        self.incoming.close();
        let closed = self.shared.closed.clone();
        if tokio::time::timeout(linger, closed.cancelled())
            .await
            .is_ok()
        {
            return;
        }
        self.close().await;
    }

    /// Sends a GOAWAY frame and closes.
    pub(crate) async fn close(self) {
        let last = self.shared.streams().last_remote;
        self.shared
            .outbox
            .control(|out| control::go_away(out, last));
        let _ = tokio::time::timeout(CLOSING, self.shared.outbox.shutdown()).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.closed.cancel();
        self.shared.end_streams();
    }
}

/// Handle to open streams on a connection.
#[derive(Clone)]
pub(crate) struct Opener(Arc<Shared>);

impl Opener {
    /// Opens a stream and waits until the peer accepts it.
    pub(crate) async fn open(&self, headers: Headers) -> Result<SpdyStream, OpenError> {
        let shared = &self.0;
        let (on_reply, replied) = oneshot::channel();
        let refused = shared.closed.child_token();
        let mut opened = None;
        shared.outbox.control(|out| {
            // Stream ids must be sent in increasing order, so they are assigned under the outbox's lock.
            let mut streams = shared.streams();
            let id = streams.next_local;
            if id > i32::MAX as u32 {
                return;
            }
            streams.next_local += 2;
            let state = shared.new_state(id, refused.clone(), Some(on_reply));
            streams.open.insert(id, state.clone());
            drop(streams);
            control::syn_stream(out, id, &headers, &mut shared.deflater());
            opened = Some(state);
        });
        let state = opened.ok_or(OpenError::Exhausted)?;
        let stream = SpdyStream::new(shared.clone(), state, headers);
        tokio::select! {
            biased;
            Ok(()) = replied => Ok(stream),
            () = shared.closed.cancelled() => Err(OpenError::Closed),
            () = refused.cancelled() => Err(OpenError::Refused),
        }
    }
}

impl Shared {
    pub(super) fn forget(&self, stream: u32) {
        self.streams().open.remove(&stream);
    }

    fn new_state(
        &self,
        id: u32,
        refused: CancellationToken,
        on_reply: Option<oneshot::Sender<()>>,
    ) -> Arc<StreamState> {
        let window = self.limits.stream_bytes;
        let inbox = Inbox::new(self.budget.clone(), window);
        StreamState::new(id, inbox, window, refused, on_reply)
    }

    fn find(&self, stream: u32) -> Option<Arc<StreamState>> {
        self.streams().open.get(&stream).cloned()
    }

    fn end_streams(&self) {
        let open = std::mem::take(&mut self.streams().open);
        for state in open.into_values() {
            state.inbox.end(End::Lost);
            state.refused.cancel();
        }
    }

    pub(super) fn deflater(&self) -> MutexGuard<'_, Deflater> {
        self.deflater.lock()
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock()
    }
}

/// Parses incoming frames and delivers them to their streams.
struct Demux {
    shared: Arc<Shared>,
    reader: ReadBuffer,
    inflater: Inflater,
    accept: mpsc::Sender<SpdyStream>,
    pulse: Pulse,
}

#[derive(Debug, thiserror::Error)]
enum DemuxError {
    #[error("the peer disconnected while its data was throttled")]
    Vanished,
    #[error("reading from the peer")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl Demux {
    async fn run(mut self, activity: Arc<Activity>) {
        let shared = self.shared.clone();
        let idle = shared.limits.idle;
        let result = tokio::select! {
            result = self.read_frames(&activity) => result,
            () = activity.idle_for(idle) => {
                tracing::debug!(?idle, "a streaming connection reached the idle timeout; closing it");
                Ok(())
            }
            () = shared.closed.cancelled() => Ok(()),
        };
        if let Err(error) = result {
            tracing::debug!(error = %error, "a streaming connection was interrupted");
        }
        shared.closed.cancel();
        shared.end_streams();
    }

    async fn read_frames(&mut self, activity: &Activity) -> Result<(), DemuxError> {
        while !self.reader.at_end().await? {
            let head = self.reader.array::<HEAD_LEN>().await?;
            activity.touch();
            match Head::parse(head)? {
                Head::Data(head) => self.data(head, activity).await?,
                Head::Control(head) => {
                    let payload = self.reader.exactly(head.length).await?;
                    let control = Control::parse(head, payload, &mut self.inflater)?;
                    if self.control(control)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    async fn data(&mut self, head: DataHead, activity: &Activity) -> Result<(), DemuxError> {
        let state = self.shared.find(head.stream);
        if state.is_none() && !self.shared.was_open(head.stream) {
            return Err(FrameError::StreamId(head.stream).into());
        }
        let mut left = head.length;
        while left > 0 {
            let piece = self.reader.some(left).await?;
            activity.touch();
            left -= piece.len();
            let size = piece.len();
            let within = self.shared.received.arrived(size);
            let Some(state) = &state else {
                self.shared.discard(head.stream, size);
                continue;
            };
            let within = state.received.arrived(size) && within;
            if !within && self.shared.windows.kept() {
                return Err(FrameError::WindowExceeded(head.stream).into());
            }
            let unwanted = tokio::select! {
                biased;
                unwanted = state.inbox.deliver(piece) => unwanted,
                () = self.pulse.lost() => return Err(DemuxError::Vanished),
            };
            if unwanted > 0 {
                self.shared.give_credit(state, unwanted);
            }
        }
        if let Some(state) = state.filter(|_| head.fin) {
            self.remote_fin(&state);
        }
        Ok(())
    }

    /// Handles a control frame; returns whether the connection has ended.
    fn control(&mut self, control: Control) -> Result<bool, FrameError> {
        let shared = &self.shared;
        match control {
            Control::SynStream {
                stream,
                fin,
                headers,
            } => self.opened(stream, fin, headers)?,
            Control::SynReply { stream, fin } | Control::Headers { stream, fin } => {
                if let Some(state) = shared.find(stream) {
                    state.replied();
                    if fin {
                        self.remote_fin(&state);
                    }
                }
            }
            Control::Reset { stream } => {
                if let Some(state) = shared.find(stream) {
                    state.refused.cancel();
                    // Servers built on Kubernetes' library end a session by resetting streams whose data is complete;
                    // the status shows whether it is.
                    state.inbox.end(match shared.role {
                        Role::Client => End::Eof,
                        Role::Server => End::Lost,
                    });
                    state.remote_ended();
                    shared.forget(stream);
                }
            }
            Control::InitialWindow(window) => shared.windows.set_initial(window),
            Control::WindowUpdate { stream: 0, delta } => shared.windows.refill_session(delta)?,
            Control::WindowUpdate { stream, delta } => {
                if let Some(state) = shared.find(stream) {
                    shared.windows.refill_stream(stream, &state.spent, delta)?;
                }
            }
            // Pings with our own parity are replies, and this side sends no pings.
            Control::Ping(id) if (id % 2 == 1) == (shared.role == Role::Server) => {
                shared.outbox.control(|out| control::ping(out, id));
            }
            Control::GoAway => shared.streams().leaving = true,
            Control::Ping(_) | Control::Ignored => {}
        }
        let streams = shared.streams();
        Ok(streams.leaving && streams.open.is_empty())
    }

    fn opened(&self, stream: u32, fin: bool, headers: Headers) -> Result<(), FrameError> {
        let shared = &self.shared;
        let theirs = (stream % 2 == 1) == (shared.role == Role::Server);
        let mut streams = shared.streams();
        if !theirs || stream <= streams.last_remote {
            return Err(FrameError::StreamId(stream));
        }
        streams.last_remote = stream;
        let permit = match self.accept.try_reserve() {
            Ok(permit) if streams.open.len() < shared.limits.streams && !streams.leaving => permit,
            _ => {
                drop(streams);
                let code = ResetCode::RefusedStream;
                shared
                    .outbox
                    .control(|out| control::reset(out, stream, code));
                return Ok(());
            }
        };
        let state = shared.new_state(stream, shared.closed.child_token(), None);
        streams.open.insert(stream, state.clone());
        drop(streams);
        if fin {
            self.remote_fin(&state);
        }
        permit.send(SpdyStream::new(shared.clone(), state, headers));
        Ok(())
    }

    fn remote_fin(&self, state: &StreamState) {
        state.inbox.end(End::Eof);
        if state.remote_ended() {
            self.shared.forget(state.id);
        }
    }
}

impl Shared {
    fn was_open(&self, stream: u32) -> bool {
        let streams = self.streams();
        let theirs = (stream % 2 == 1) == (self.role == Role::Server);
        if theirs {
            stream <= streams.last_remote
        } else {
            stream < streams.next_local
        }
    }

    /// Discards data of a closed stream. The peer gets its window back at once; it could otherwise wait for it before
    /// it sees that the stream has ended.
    fn discard(&self, stream: u32, size: usize) {
        let kept = self.windows.kept();
        let session = self.received.taken(size, kept);
        if kept {
            self.refill(stream, Refill::By(size as u32), session);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

    use super::super::frame::HEAD_LEN;
    use super::*;

    const LIMITS: Limits = Limits {
        streams: 16,
        stream_bytes: 1 << 20,
        connection_bytes: 8 << 20,
        idle: Duration::from_mins(10),
    };

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

    async fn reply(peer: &mut DuplexStream, stream: u32) {
        let mut out = Vec::new();
        control::syn_reply(&mut out, stream, &mut Deflater::default());
        peer.write_all(&out).await.unwrap();
    }

    async fn send(peer: &mut DuplexStream, stream: u32, data: &[u8], fin: bool) {
        let length = data.len();
        let head = DataHead {
            stream,
            fin,
            length,
        };
        peer.write_all(&head.encode()).await.unwrap();
        peer.write_all(data).await.unwrap();
    }

    #[tokio::test]
    async fn the_last_words_of_a_server_that_has_closed_are_read() {
        let (mut server, reader) = tokio::io::duplex(1 << 16);
        let transport = Transport {
            reader: Box::new(reader),
            writer: Box::new(Closed),
            pulse: Pulse::none(),
        };
        let connection = Connection::start(transport, Role::Client, LIMITS);
        let opener = connection.opener();
        let peer = async {
            // Long enough for the failure to be noticed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            reply(&mut server, 1).await;
            for _ in 0..50 {
                send(&mut server, 1, &vec![7; 60_000], false).await;
            }
            send(&mut server, 1, b"", true).await;
            drop(server);
        };
        let client = async {
            let mut stream = opener.open(Headers::new(&[])).await.expect("a reply came");
            let mut all = Vec::new();
            stream.input.read_to_end(&mut all).await.expect("all came");
            assert_eq!(all.len(), 3_000_000);
        };
        tokio::join!(peer, client);
    }

    #[tokio::test]
    async fn a_peer_that_keeps_no_windows_is_not_told_of_any_while_it_sends() {
        let (mut server, transport) = tokio::io::duplex(1 << 16);
        let connection = Connection::start(Transport::from_io(transport), Role::Client, LIMITS);
        let opener = connection.opener();
        let client = async {
            let mut stream = opener.open(Headers::new(&[])).await.expect("a reply came");
            let mut all = Vec::new();
            stream.input.read_to_end(&mut all).await.expect("all came");
            assert_eq!(all.len(), 6_000_000);
        };
        let peer = async {
            // Settings, the connection's window, and the stream.
            for _ in 0..3 {
                let mut head = [0; HEAD_LEN];
                server.read_exact(&mut head).await.unwrap();
                let length = u32::from_be_bytes([0, head[5], head[6], head[7]]);
                let mut rest = vec![0; length as usize];
                server.read_exact(&mut rest).await.unwrap();
            }
            reply(&mut server, 1).await;
            for _ in 0..100 {
                send(&mut server, 1, &vec![7; 60_000], false).await;
            }
            send(&mut server, 1, b"", true).await;
        };
        tokio::join!(client, peer);
        // The end of the client's direction, and a refill that it might have waited for.
        drop(opener);
        drop(connection);
        let mut said = Vec::new();
        server.read_to_end(&mut said).await.unwrap();
        assert!(
            said.len() <= 8 + 16,
            "{} bytes that it has no use for",
            said.len()
        );
    }

    /// There may be thousands of sessions with silent clients.
    #[tokio::test]
    async fn a_connection_that_has_opened_its_streams_holds_little() {
        const CONNECTIONS: usize = 200;
        const MOST: usize = 128 << 10;
        let open = async || {
            let (mut client, transport) = tokio::io::duplex(1 << 10);
            let mut server = Connection::start(Transport::from_io(transport), Role::Server, LIMITS);
            let mut out = Vec::new();
            let headers = Headers::new(&[(crate::protocol::STREAM_TYPE, "stdin")]);
            control::syn_stream(&mut out, 1, &headers, &mut Deflater::default());
            client.write_all(&out).await.unwrap();
            let stream = server.accept().await.expect("a stream");
            stream.accept();
            (client, server, stream)
        };
        let mut held = vec![open().await];
        let before = orlop_testkit::process::memory(std::process::id(), "VmRSS:");
        for _ in 0..CONNECTIONS {
            held.push(open().await);
        }
        let after = orlop_testkit::process::memory(std::process::id(), "VmRSS:");
        let each = ((after - before) << 10) as usize / CONNECTIONS;
        println!("{each} bytes for each connection");
        assert!(each <= MOST, "{each} bytes for each connection");
    }
}
