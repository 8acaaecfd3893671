//! The life of one call, with its log lines and metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_listen::InProgress;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::Code;
use tracing::Span;

use super::counts::{CallCounter, CallMetrics};
use super::in_work::Listed;
use super::method::Method;
use crate::memory::Settling;

/// A running call. Dropping it records its outcome, however it ends.
#[derive(Debug)]
pub(super) struct Call {
    method: Method,
    counter: CallCounter,
    span: Span,
    started: Instant,
    slow: Option<Duration>,
    outcome: Option<Outcome>,
    streaming: bool,
    _in_work: (TaskTrackerToken, Listed),
    calling: Option<InProgress>,
    settling: Option<Arc<Settling>>,
}

#[derive(Debug)]
struct Outcome {
    code: Code,
    message: String,
}

impl Call {
    pub(super) fn begin(
        method: Method,
        span: Span,
        metrics: &Arc<CallMetrics>,
        slow: Option<Duration>,
        in_work: (TaskTrackerToken, Listed),
        calling: Option<InProgress>,
        settling: Option<Arc<Settling>>,
    ) -> Self {
        Self {
            method,
            counter: metrics.begin(method),
            span,
            started: Instant::now(),
            slow,
            outcome: None,
            streaming: false,
            _in_work: in_work,
            calling,
            settling,
        }
    }

    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Returns the duration after which a running call is logged as slow.
    pub(super) fn slow(&self) -> Option<Duration> {
        self.slow
    }

    /// Logs that the call is still running after an unusually long time.
    pub(super) fn still_going(&self) {
        tracing::warn!(
            seconds = self.started.elapsed().as_secs(),
            "a slow call is still running"
        );
    }

    /// Marks the call as a stream, which may last.
    pub(super) fn opened_stream(&mut self) {
        self.streaming = true;
    }

    /// Returns the guard that marks the peer as calling; the response keeps it.
    pub(super) fn take_calling(&mut self) -> Option<InProgress> {
        self.calling.take()
    }

    /// Records how the call ended. The first outcome counts.
    pub(super) fn ended(&mut self, code: Code, message: &str) {
        self.outcome.get_or_insert_with(|| Outcome {
            code,
            message: message.to_owned(),
        });
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let elapsed = self.started.elapsed();
        if let Some(settling) = &self.settling {
            settling.worked();
        }
        // No outcome was recorded: the client or its connection is gone.
        let outcome = self.outcome.take().unwrap_or_else(|| Outcome {
            code: Code::Cancelled,
            message: "the client disconnected".to_owned(),
        });
        self.counter.finish(
            self.method,
            outcome.code,
            (!self.streaming).then_some(elapsed),
        );
        let _entered = self.span.enter();
        let (code, message, ms) = (
            outcome.code,
            outcome.message.as_str(),
            elapsed.as_micros() as f64 / 1e3,
        );
        if code == Code::Ok {
            if self.slow.is_some_and(|slow| elapsed >= slow) && !self.streaming {
                tracing::warn!(ms, "a slow call finished");
            } else {
                tracing::debug!(ms, "done");
            }
        } else if is_alarming(code) {
            tracing::warn!(ms, ?code, error = message, "call failed");
        } else if is_routine(code) {
            tracing::debug!(ms, ?code, error = message, "call failed");
        } else {
            tracing::info!(ms, ?code, error = message, "call failed");
        }
    }
}

/// Returns whether a code means a problem of this daemon.
fn is_alarming(code: Code) -> bool {
    matches!(
        code,
        Code::Internal | Code::Unknown | Code::DataLoss | Code::ResourceExhausted
    )
}

/// Returns whether a code is usual in the work of the kubelet.
fn is_routine(code: Code) -> bool {
    matches!(code, Code::NotFound | Code::Cancelled | Code::Unimplemented)
}
