//! Calls that have ended, on their way to who wants to know of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::{self, error::TryRecvError};

use super::facts::TraceFacts;
use super::span::Span;

/// Calls that a listener may lag behind.
pub(super) const QUEUE: usize = 256;

/// A call that has ended, with its steps; the call is the first.
#[derive(Debug, Clone)]
pub struct FinishedCall {
    /// What the trace is about.
    pub facts: TraceFacts,
    /// The trace that it belongs to: its client's, or the pod's own.
    pub trace: [u8; 16],
    /// When the trace began, by the wall clock: nanoseconds since 1970.
    pub begun_at: i64,
    /// The call and its steps.
    pub spans: Vec<Span>,
}

/// Calls as they end, as far as there was room for them.
#[derive(Debug)]
pub struct FinishedCalls {
    calls: mpsc::Receiver<FinishedCall>,
    overrun: Arc<AtomicU64>,
}

/// Where calls that end are put.
#[derive(Debug)]
pub(super) struct Teller {
    calls: mpsc::Sender<FinishedCall>,
    overrun: Arc<AtomicU64>,
}

/// What became of a call that was told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    Taken,
    /// As many as may are waiting.
    Lost,
    /// Nobody listens any more.
    Gone,
}

/// A way from one to the other.
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
    /// The next one.
    pub async fn recv(&mut self) -> Option<FinishedCall> {
        self.calls.recv().await
    }

    /// The next ones, at least one and not more than `most`; how many. Zero when there are none any more.
    pub async fn recv_many(&mut self, into: &mut Vec<FinishedCall>, most: usize) -> usize {
        self.calls.recv_many(into, most).await
    }

    /// One that is here already.
    pub fn try_recv(&mut self) -> Result<FinishedCall, TryRecvError> {
        self.calls.try_recv()
    }

    /// Spans for which there was no room since the last time that somebody asked.
    pub fn take_overrun(&self) -> u64 {
        self.overrun.swap(0, Ordering::Relaxed)
    }
}
