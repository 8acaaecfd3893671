//! Finished calls on their way to listeners.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::{self, error::TryRecvError};

use super::facts::TraceFacts;
use super::span::Span;

/// Maximum number of queued calls per listener.
pub(super) const QUEUE: usize = 256;

/// A finished call with its steps; the call is the first span.
#[derive(Debug, Clone)]
pub struct FinishedCall {
    /// The facts about the trace.
    pub facts: TraceFacts,
    /// The trace id: the client's, or the pod's own.
    pub trace: [u8; 16],
    /// The start of the trace by the wall clock, in nanoseconds since 1970.
    pub begun_at: i64,
    /// The call and its steps.
    pub spans: Vec<Span>,
}

/// Receiver of finished calls. Calls beyond the queue's limit are dropped.
#[derive(Debug)]
pub struct FinishedCalls {
    calls: mpsc::Receiver<FinishedCall>,
    overrun: Arc<AtomicU64>,
}

/// Sender of finished calls.
#[derive(Debug)]
pub(super) struct Teller {
    calls: mpsc::Sender<FinishedCall>,
    overrun: Arc<AtomicU64>,
}

/// The outcome of sending a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    Taken,
    /// The queue is full, and the call is dropped.
    Lost,
    /// The receiver is closed.
    Gone,
}

/// Creates a sender and its receiver.
pub(super) fn channel() -> (Teller, FinishedCalls) {
    let (tell, calls) = mpsc::channel(QUEUE);
    let overrun = Arc::<AtomicU64>::default();
    let teller = Teller {
        calls: tell,
        overrun: Arc::clone(&overrun),
    };
    (teller, FinishedCalls { calls, overrun })
}

impl Teller {
    pub(super) fn tell(&self, call: &FinishedCall) -> Told {
        let spans = call.spans.len() as u64;
        match self.calls.try_send(call.clone()) {
            Ok(()) => Told::Taken,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.overrun.fetch_add(spans, Ordering::Relaxed);
                Told::Lost
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Told::Gone,
        }
    }
}

impl FinishedCalls {
    /// Waits for the next call.
    pub async fn recv(&mut self) -> Option<FinishedCall> {
        self.calls.recv().await
    }

    /// Waits for one to `most` calls and returns their number; zero if the sender is gone.
    pub async fn recv_many(&mut self, into: &mut Vec<FinishedCall>, most: usize) -> usize {
        self.calls.recv_many(into, most).await
    }

    /// Returns a call that is already in the queue.
    pub fn try_recv(&mut self) -> Result<FinishedCall, TryRecvError> {
        self.calls.try_recv()
    }

    /// Returns the number of spans dropped since the last call of this function.
    pub fn take_overrun(&self) -> u64 {
        self.overrun.swap(0, Ordering::Relaxed)
    }
}
