//! Prometheus metrics of pod starts and pulls.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
}

impl Outcome {
    /// Returns the outcome of a result.
    pub fn of<T, E>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Done,
            Err(_) => Self::Failed,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// Counters of calls, steps and pulls. Cheap to clone; all clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    steps: Family<StepLabels, Histogram, fn() -> Histogram>,
    calls: Family<CallLabels, Counter>,
    pulls: Family<OutcomeLabels, Counter>,
    pull_seconds: Histogram,
    pulled_bytes: Counter,
    spans: Family<OutcomeLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    handler: String,
    step: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    handler: String,
    call: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// Buckets from a journal line to a slow network plugin.
const STEP_BUCKETS: [f64; 14] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];

/// Label values for the fate of spans.
const SENT: &str = "sent";
const LOST: &str = "lost";

const PULL_BUCKETS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0];

impl Default for Inner {
    fn default() -> Self {
        Self {
            steps: Family::new_with_constructor(|| Histogram::new(STEP_BUCKETS)),
            calls: Family::default(),
            pulls: Family::default(),
            pull_seconds: Histogram::new(PULL_BUCKETS),
            pulled_bytes: Counter::default(),
            spans: Family::default(),
        }
    }
}

impl Metrics {
    /// Registers the metrics for export.
    pub fn register(&self, registry: &mut Registry) {
        let inner = &self.0;
        registry.register(
            "orlop_step_duration_seconds",
            "Duration of the calls that start pods and of their steps, by runtime handler",
            inner.steps.clone(),
        );
        registry.register(
            "orlop_pod_calls",
            "Calls that create pods and containers, by runtime handler and outcome",
            inner.calls.clone(),
        );
        registry.register("orlop_pulls", "Finished image pulls", inner.pulls.clone());
        registry.register(
            "orlop_pull_duration_seconds",
            "Duration of successful image pulls",
            inner.pull_seconds.clone(),
        );
        registry.register(
            "orlop_pull_bytes",
            "Compressed size of pulled images, including layers that were already on the node",
            inner.pulled_bytes.clone(),
        );
        for outcome in [SENT, LOST] {
            drop(inner.spans.get_or_create(&OutcomeLabels { outcome }));
        }
        registry.register(
            "orlop_trace_spans",
            "Trace spans that were sent to the collector or lost",
            inner.spans.clone(),
        );
    }

    pub(super) fn step(&self, handler: &str, step: &'static str, took: Duration) {
        let handler = handler.to_owned();
        let labels = StepLabels { handler, step };
        let histogram = self.0.steps.get_or_create(&labels);
        histogram.observe(took.as_secs_f64());
    }

    pub(super) fn call(&self, handler: &str, call: &'static str, outcome: Outcome) {
        let labels = CallLabels {
            handler: handler.to_owned(),
            call,
            outcome: outcome.word(),
        };
        self.0.calls.get_or_create(&labels).inc();
    }

    /// Counts spans that a collector has received.
    pub fn sent(&self, spans: usize) {
        self.spans(SENT).inc_by(spans as u64);
    }

    /// Counts spans that did not reach a collector.
    pub fn lost(&self, spans: usize) {
        self.spans(LOST).inc_by(spans as u64);
    }

    #[cfg(test)]
    pub(super) fn spans_lost(&self) -> u64 {
        self.spans(LOST).get()
    }

    fn spans(&self, outcome: &'static str) -> Counter {
        let labels = OutcomeLabels { outcome };
        self.0.spans.get_or_create(&labels).clone()
    }

    /// Counts a finished pull of an image with this many bytes.
    pub fn pulled(&self, outcome: Outcome, took: Duration, bytes: u64) {
        let outcome_label = OutcomeLabels {
            outcome: outcome.word(),
        };
        self.0.pulls.get_or_create(&outcome_label).inc();
        if outcome == Outcome::Done {
            self.0.pull_seconds.observe(took.as_secs_f64());
            self.0.pulled_bytes.inc_by(bytes);
        }
    }
}
