//! Metrics of plugins.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::connection::CallError;

/// Metrics of plugins. Cheap to clone; all clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    plugins: Gauge,
    calls: Family<CallLabels, Counter>,
    seconds: Family<TimeLabels, Histogram, fn() -> Histogram>,
    changes: Family<ChangeLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    plugin: String,
    call: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TimeLabels {
    plugin: String,
    call: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChangeLabels {
    plugin: String,
    call: &'static str,
    kind: &'static str,
}

const BUCKETS: [f64; 9] = [0.000_25, 0.001, 0.002_5, 0.01, 0.025, 0.1, 0.5, 1.0, 2.0];

impl Default for Inner {
    fn default() -> Self {
        Self {
            plugins: Gauge::default(),
            calls: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            changes: Family::default(),
        }
    }
}

impl Metrics {
    /// Registers the metrics for export.
    pub fn register(&self, registry: &mut Registry) {
        let inner = &self.0;
        registry.register(
            "orlop_nri_plugins",
            "NRI plugins that are registered",
            inner.plugins.clone(),
        );
        registry.register(
            "orlop_nri_calls",
            "Calls to NRI plugins, by plugin, call and outcome",
            inner.calls.clone(),
        );
        registry.register(
            "orlop_nri_call_duration_seconds",
            "Duration of calls to NRI plugins",
            inner.seconds.clone(),
        );
        registry.register(
            "orlop_nri_changes",
            "Adjustments, updates and evictions that NRI plugins requested",
            inner.changes.clone(),
        );
    }

    pub(crate) fn plugins(&self, count: usize) {
        self.0.plugins.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn call<T>(
        &self,
        plugin: &str,
        call: &'static str,
        took: Duration,
        result: &Result<T, CallError>,
    ) {
        let outcome = match result {
            Ok(_) => "done",
            Err(error) => error.word(),
        };
        let plugin = plugin.to_owned();
        let labels = TimeLabels { plugin, call };
        self.0
            .seconds
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        let TimeLabels { plugin, call } = labels;
        let labels = CallLabels {
            plugin,
            call,
            outcome,
        };
        self.0.calls.get_or_create(&labels).inc();
    }

    pub(crate) fn changes(&self, plugin: &str, call: &'static str, kind: &'static str, n: usize) {
        if n > 0 {
            let labels = ChangeLabels {
                plugin: plugin.to_owned(),
                call,
                kind,
            };
            self.0.changes.get_or_create(&labels).inc_by(n as u64);
        }
    }
}
