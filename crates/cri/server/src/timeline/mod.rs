//! Timelines of pod starts and pulls: durations of their steps in microseconds. The latest are kept in memory, and all
//! are counted in metrics.

mod facts;
mod finished;
mod kept_spans;
mod listeners;
mod listing;
mod metrics;
mod open_steps;
mod origin;
mod sampling;
mod span;
mod trace;
mod traces;

pub use facts::{Kind, TraceFacts};
pub use finished::{FinishedCall, FinishedCalls};
pub use listing::answer;
pub use metrics::{Metrics, Outcome};
pub use open_steps::OpenStep;
pub use origin::{Arrival, Origin, TraceParent};
pub use sampling::Sampling;
pub use span::Span;
pub use trace::{Call, Early, Trace};
pub use traces::Traces;
