//! Metrics about pods as a whole.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Histograms, Labels, family, seconds};

/// Metrics about the start, sync and end of pods.
pub(crate) struct PodMetrics {
    start_seconds: Histogram,
    worker_seconds: Histograms,
    evictions: Family<Labels, Counter>,
    rejections: Family<Labels, Counter>,
    strangers: Counter,
    restarted: Family<Labels, Counter>,
}

impl Default for PodMetrics {
    fn default() -> Self {
        Self {
            start_seconds: seconds(),
            worker_seconds: family(),
            evictions: Family::default(),
            rejections: Family::default(),
            strangers: Counter::default(),
            restarted: Family::default(),
        }
    }
}

impl PodMetrics {
    /// Records the time from first seeing a pod to its first running container.
    pub(crate) fn started(&self, took: Duration) {
        self.start_seconds.observe(took.as_secs_f64());
    }

    /// Records the duration of a worker operation: `create`, `sync` or `terminate`.
    pub(crate) fn worked(&self, operation: &'static str, took: Duration) {
        let labels = vec![("operation_type", operation.to_owned())];
        let seconds = self.worker_seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
    }

    /// Counts an eviction caused by node pressure.
    pub(crate) fn evicted(&self, signal: &str) {
        let labels = vec![("eviction_signal", signal.to_owned())];
        self.evictions.get_or_create(&labels).inc();
    }

    /// Counts a pod that failed admission.
    pub(crate) fn rejected(&self, reason: &str) {
        let labels = vec![("reason", reason.to_owned())];
        self.rejections.get_or_create(&labels).inc();
    }

    /// Counts an orphaned pod.
    pub(crate) fn stranger(&self) {
        self.strangers.inc();
    }

    /// Counts a pod that was set again under its uid before it was gone.
    pub(crate) fn restarted(&self) {
        let labels = vec![("static", "true".to_owned())];
        self.restarted.get_or_create(&labels).inc();
    }

    pub(super) fn register(&self, r: &mut Registry) {
        r.register(
            "pod_start_duration_seconds",
            "Duration in seconds from first seeing a pod to running it",
            self.start_seconds.clone(),
        );
        r.register(
            "pod_worker_duration_seconds",
            "Duration in seconds of one pod sync",
            self.worker_seconds.clone(),
        );
        r.register(
            "evictions",
            "Cumulative number of pod evictions by eviction signal",
            self.evictions.clone(),
        );
        r.register(
            "admission_rejections",
            "Cumulative number of pods that admission rejected",
            self.rejections.clone(),
        );
        r.register(
            "orphaned_runtime_pods",
            "Cumulative number of running pods that no manifest source defines",
            self.strangers.clone(),
        );
        r.register(
            "restarted_pods",
            "Cumulative number of pods that were removed and added again with the same UID",
            self.restarted.clone(),
        );
    }
}
