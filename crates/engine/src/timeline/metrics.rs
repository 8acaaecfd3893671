//! What is counted of all pods and images, for Prometheus.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// How something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Done,
    /// Not.
    Failed,
}

impl Outcome {
    /// The outcome of a result.
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

/// Counters of the engine. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    steps: Family<StepLabels, Histogram, fn() -> Histogram>,
    calls: Family<CallLabels, Counter>,
    pulls: Family<OutcomeLabels, Counter>,
    pull_seconds: Histogram,
    pulled_bytes: Counter,
    freed_bytes: Counter,
    freed_layers: Counter,
    leaks: Family<KindLabels, Counter>,
    oom_kills: Counter,
    log_dropped: Counter,
    plugins: orlop_nri::Metrics,
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

/// From a line in a journal to a slow network plugin.
const STEP_BUCKETS: [f64; 14] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];

/// What can be found without an owner. All are there from the start, at zero: an alert on a
/// counter that appears with its first count would miss that.
const LEAKS: [&str; 7] = [
    "cgroup",
    "directory",
    "keeper",
    "lease",
    "netns",
    "network",
    "runtime",
];

const PULL_BUCKETS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0];

impl Default for Inner {
    fn default() -> Self {
        Self {
            steps: Family::new_with_constructor(|| Histogram::new(STEP_BUCKETS)),
            calls: Family::default(),
            pulls: Family::default(),
            pull_seconds: Histogram::new(PULL_BUCKETS),
            pulled_bytes: Counter::default(),
            freed_bytes: Counter::default(),
            freed_layers: Counter::default(),
            leaks: Family::default(),
            oom_kills: Counter::default(),
            log_dropped: Counter::default(),
            plugins: orlop_nri::Metrics::default(),
        }
    }
}

impl Metrics {
    /// Offers them to be exported.
    pub fn register(&self, registry: &mut Registry) {
        let inner = &self.0;
        for kind in LEAKS {
            drop(inner.leaks.get_or_create(&KindLabels { kind }));
        }
        registry.register(
            "orlop_step_duration_seconds",
            "How long the calls of a pod's start and their steps took, by runtime handler",
            inner.steps.clone(),
        );
        registry.register(
            "orlop_pod_calls",
            "Calls that make pods and containers, by runtime handler and outcome",
            inner.calls.clone(),
        );
        registry.register("orlop_pulls", "Pulls ended", inner.pulls.clone());
        registry.register(
            "orlop_pull_duration_seconds",
            "How long pulls took that brought an image",
            inner.pull_seconds.clone(),
        );
        registry.register(
            "orlop_pull_bytes",
            "Compressed bytes of the images that pulls brought, layers that were here included",
            inner.pulled_bytes.clone(),
        );
        registry.register(
            "orlop_gc_freed_bytes",
            "Bytes of disk that removed images have freed",
            inner.freed_bytes.clone(),
        );
        registry.register(
            "orlop_gc_freed_layers",
            "Layers removed because nothing needed them any more",
            inner.freed_layers.clone(),
        );
        registry.register(
            "orlop_leaks_found",
            "Things found that belonged to no pod, by kind",
            inner.leaks.clone(),
        );
        registry.register(
            "orlop_oom_kills",
            "Containers in which a process was killed for want of memory",
            inner.oom_kills.clone(),
        );
        registry.register(
            "orlop_log_dropped_bytes",
            "Output of containers that their log could not take",
            inner.log_dropped.clone(),
        );
        inner.plugins.register(registry);
    }

    /// Those of the node's plugins.
    pub fn plugins(&self) -> &orlop_nri::Metrics {
        &self.0.plugins
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

    /// A pull has ended, and brought an image of so many bytes.
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

    /// Images or layers were removed.
    pub fn freed(&self, freed: &orlop_image::Freed) {
        self.0.freed_bytes.inc_by(freed.bytes);
        self.0.freed_layers.inc_by(freed.layers as u64);
    }

    /// Something was found that belonged to no pod.
    pub fn leak(&self, kind: &'static str) {
        self.0.leaks.get_or_create(&KindLabels { kind }).inc();
    }

    /// A process of a container was killed for want of memory.
    pub fn oom_kill(&self) {
        self.0.oom_kills.inc();
    }

    /// A log could not take so much output.
    pub fn log_dropped(&self, bytes: u64) {
        self.0.log_dropped.inc_by(bytes);
    }
}
