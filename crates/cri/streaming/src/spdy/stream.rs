//! Streams of a SPDY connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::connection::Shared;
use super::control::{self, ResetCode};
use super::frame::DataHead;
use super::headers::Headers;
use super::window::{ReceiveWindow, Refill};
use crate::flow::{Inbox, Input};

/// Maximum size of a data frame, so that streams take turns.
const MAX_FRAME: usize = 256 * 1024;

/// A peer that sends nothing for this long may be waiting for its window.
const DOUBT: Duration = Duration::from_millis(50);

/// A stream, whose two directions the consumer takes.
pub(crate) struct SpdyStream {
    pub(crate) headers: Headers,
    pub(crate) input: Input,
    pub(crate) output: SpdySink,
    state: Arc<StreamState>,
    shared: Arc<Shared>,
}

/// The connection's state of an open stream.
pub(super) struct StreamState {
    pub(super) id: u32,
    pub(super) inbox: Arc<Inbox>,
    pub(super) received: ReceiveWindow,
    /// Bytes sent and not yet refilled by the peer.
    pub(super) spent: AtomicI64,
    /// Cancelled when the peer resets the stream or the connection ends.
    pub(super) refused: CancellationToken,
    life: Mutex<Life>,
}

/// ```text
///            output closed            peer's FIN, or input dropped
///  open ───────────────────► half ─────────────────────────────────► forgotten
///    └──────────────────────── reset, either side ──────────────────────┘
/// ```
struct Life {
    output_open: bool,
    input_open: bool,
    remote_open: bool,
    on_reply: Option<oneshot::Sender<()>>,
}

impl StreamState {
    pub(super) fn new(
        id: u32,
        inbox: Arc<Inbox>,
        window: usize,
        refused: CancellationToken,
        on_reply: Option<oneshot::Sender<()>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            inbox,
            received: ReceiveWindow::new(window),
            spent: AtomicI64::new(0),
            refused,
            life: Mutex::new(Life {
                output_open: true,
                input_open: true,
                remote_open: true,
                on_reply,
            }),
        })
    }

    pub(super) fn replied(&self) {
        if let Some(on_reply) = self.life().on_reply.take() {
            let _ = on_reply.send(());
        }
    }

    /// Records the peer's end; returns whether the stream can be removed.
    pub(super) fn remote_ended(&self) -> bool {
        let mut life = self.life();
        life.remote_open = false;
        life.forgettable()
    }

    fn input_dropped(&self) -> bool {
        let mut life = self.life();
        life.input_open = false;
        life.forgettable()
    }

    /// Records that the output is closed; `None` if it was closed before.
    fn output_closed(&self) -> Option<bool> {
        let mut life = self.life();
        std::mem::replace(&mut life.output_open, false).then(|| life.forgettable())
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock()
    }
}

impl Life {
    fn forgettable(&self) -> bool {
        !(self.output_open || self.remote_open && self.input_open)
    }
}

impl SpdyStream {
    pub(super) fn new(shared: Arc<Shared>, state: Arc<StreamState>, headers: Headers) -> Self {
        let credit = {
            let gone = InputGone {
                shared: shared.clone(),
                state: state.clone(),
            };
            move |taken| gone.shared.give_credit(&gone.state, taken)
        };
        let input = Input::new(state.inbox.clone(), Some(Box::new(credit)));
        let output = SpdySink {
            shared: shared.clone(),
            state: state.clone(),
        };
        Self {
            headers,
            input,
            output,
            state,
            shared,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.state.id
    }

    /// Accepts the stream with a SYN_REPLY.
    pub(crate) fn accept(&self) {
        self.shared.reply(self.state.id);
    }

    /// Refuses the stream.
    pub(crate) fn refuse(self) {
        self.shared.reset(&self.state, ResetCode::RefusedStream);
    }
}

/// Detects the drop of a stream's [`Input`]; it lives in the input's credit function.
struct InputGone {
    shared: Arc<Shared>,
    state: Arc<StreamState>,
}

impl Drop for InputGone {
    fn drop(&mut self) {
        if self.state.input_dropped() {
            self.shared.forget(self.state.id);
        }
    }
}

/// The sending direction of a stream.
pub(crate) struct SpdySink {
    shared: Arc<Shared>,
    state: Arc<StreamState>,
}

impl SpdySink {
    pub(crate) async fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let want = data.len().min(MAX_FRAME);
            let length = tokio::select! {
                biased;
                () = self.state.refused.cancelled() => return Err(stream_refused()),
                granted = self.shared.windows.reserve(&self.state.spent, want) => granted,
            };
            let (now, rest) = data.split_at(length);
            let head = DataHead {
                stream: self.state.id,
                fin: false,
                length,
            };
            self.shared.outbox.frame(&head.encode(), now).await?;
            data = rest;
        }
        Ok(())
    }

    pub(crate) fn refused(&self) -> CancellationToken {
        self.state.refused.clone()
    }

    pub(crate) fn reset(&mut self) {
        self.shared.reset(&self.state, ResetCode::Cancel);
    }
}

impl Drop for SpdySink {
    fn drop(&mut self) {
        let Some(forgettable) = self.state.output_closed() else {
            return;
        };
        if !self.state.refused.is_cancelled() {
            let head = DataHead {
                stream: self.state.id,
                fin: true,
                length: 0,
            };
            self.shared.outbox.control(|out| out.extend(head.encode()));
        }
        if forgettable {
            self.shared.forget(self.state.id);
        }
    }
}

fn stream_refused() -> io::Error {
    io::Error::new(
        io::ErrorKind::BrokenPipe,
        "the peer closed this stream for reading",
    )
}

impl Shared {
    pub(super) fn reply(&self, stream: u32) {
        self.outbox
            .control(|out| control::syn_reply(out, stream, &mut self.deflater()));
    }

    /// Resets both directions.
    pub(super) fn reset(&self, state: &StreamState, code: ResetCode) {
        let open = state.output_closed().is_some();
        if open && !state.refused.is_cancelled() {
            self.outbox
                .control(|out| control::reset(out, state.id, code));
        }
        state.refused.cancel();
        state.inbox.end(crate::flow::End::Lost);
        self.forget(state.id);
    }

    /// Allows the peer to send as many bytes as were consumed.
    pub(super) fn give_credit(self: &Arc<Self>, state: &Arc<StreamState>, taken: usize) {
        let kept = self.windows.kept();
        let stream = state.received.taken(taken, kept);
        let session = self.received.taken(taken, kept);
        self.refill(state.id, stream, session);
        let doubtful = [stream, session].contains(&Refill::Perhaps);
        if let (true, Ok(runtime)) = (doubtful, tokio::runtime::Handle::try_current()) {
            let (shared, state) = (self.clone(), state.clone());
            runtime.spawn(async move {
                tokio::time::sleep(DOUBT).await;
                let stream = state.received.after_doubt();
                let session = shared.received.after_doubt();
                shared.refill(state.id, stream, session);
            });
        }
    }

    pub(super) fn refill(&self, id: u32, stream: Refill, session: Refill) {
        let refills = [(id, stream), (0, session)];
        if !refills.iter().any(|(_, by)| matches!(by, Refill::By(_))) {
            return;
        }
        self.outbox.control(|out| {
            for (id, by) in refills {
                if let Refill::By(delta) = by {
                    control::window_update(out, id, delta);
                }
            }
        });
    }
}
