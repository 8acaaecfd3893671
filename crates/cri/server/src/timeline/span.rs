//! Spans, in the exported form: a call, or one step of a call.

use std::sync::Arc;
use std::time::Duration;

use super::origin::TraceParent;

/// A call, or a step of one.
#[derive(Debug, Clone)]
pub struct Span {
    /// The call's or the step's name.
    pub name: &'static str,
    /// The container of the span; empty for the pod itself.
    pub container: Arc<str>,
    /// The index of the call that this step belongs to; `None` for a call.
    pub call: Option<usize>,
    /// The start, relative to the start of the trace.
    pub start: Duration,
    /// The duration; `None` while the span is open.
    pub took: Option<Duration>,
    /// Whether it failed.
    pub failed: bool,
    /// The client's span, for a call.
    pub parent: Option<TraceParent>,
}
