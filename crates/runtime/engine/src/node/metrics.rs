//! Prometheus metrics of the native engine, in addition to those of its calls.

use std::sync::Arc;

use orlop_cri_server::timeline;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Counters of the engine. Cheap to clone; all clones share their values.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    inner: Arc<Inner>,
    /// Metrics of calls, steps and pulls.
    pub timeline: timeline::Metrics,
}

#[derive(Debug, Default)]
struct Inner {
    freed_bytes: Counter,
    freed_layers: Counter,
    leaks: Family<KindLabels, Counter>,
    oom_kills: Counter,
    log_dropped: Counter,
    plugins: orlop_nri::Metrics,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

/// Kinds of objects that can be found without an owner. All start at zero: an alert on a counter that
/// appears with its first count would miss that.
const LEAKS: [&str; 7] = [
    "cgroup",
    "directory",
    "keeper",
    "lease",
    "netns",
    "network",
    "runtime",
];

impl Metrics {
    /// Registers all metrics except those of the timeline.
    pub fn register(&self, registry: &mut Registry) {
        let inner = &self.inner;
        for kind in LEAKS {
            drop(inner.leaks.get_or_create(&KindLabels { kind }));
        }
        registry.register(
            "orlop_gc_freed_bytes",
            "Disk space in bytes that image removal freed",
            inner.freed_bytes.clone(),
        );
        registry.register(
            "orlop_gc_freed_layers",
            "Unused layers that were removed",
            inner.freed_layers.clone(),
        );
        registry.register(
            "orlop_leaks_found",
            "Leftover resources that belong to no pod, found at the start of the daemon, by kind",
            inner.leaks.clone(),
        );
        registry.register(
            "orlop_oom_kills",
            "Containers in which a process was killed because of memory shortage",
            inner.oom_kills.clone(),
        );
        registry.register(
            "orlop_log_dropped_bytes",
            "Container output in bytes that was not written to the log",
            inner.log_dropped.clone(),
        );
        inner.plugins.register(registry);
    }

    /// Returns the metrics of NRI plugins.
    pub fn plugins(&self) -> &orlop_nri::Metrics {
        &self.inner.plugins
    }

    /// Counts removed images and layers.
    pub fn freed(&self, freed: &orlop_image_store::Freed) {
        self.inner.freed_bytes.inc_by(freed.bytes);
        self.inner.freed_layers.inc_by(freed.layers as u64);
    }

    /// Counts an object that belonged to no pod.
    pub fn leak(&self, kind: &'static str) {
        self.inner.leaks.get_or_create(&KindLabels { kind }).inc();
    }

    /// Counts an out-of-memory kill of a container's process.
    pub fn oom_kill(&self) {
        self.inner.oom_kills.inc();
    }

    /// Counts bytes of output that a log could not take.
    pub fn log_dropped(&self, bytes: u64) {
        self.inner.log_dropped.inc_by(bytes);
    }
}
