//! A call, or one step of a call, in the form that is exported.

use std::sync::Arc;
use std::time::Duration;

use super::origin::TraceParent;

/// A call, or a step of one.
#[derive(Debug, Clone)]
pub struct Span {
    /// The call's or the step's name.
    pub name: &'static str,
    /// The name of the container that it is for; empty for the pod itself.
    pub container: Arc<str>,
    /// The number of the call that this is a step of; none for a call.
    pub call: Option<usize>,
    /// After the trace's beginning.
    pub start: Duration,
    /// None while it goes on.
    pub took: Option<Duration>,
    /// Whether it failed.
    pub failed: bool,
    /// The client's span, for a call.
    pub parent: Option<TraceParent>,
}
