//! Metrics of calls to the engine, under the names that cri-dockerd and older kubelets use.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use http::Method;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

/// Metrics of calls to the engine by operation. Cheap to clone; all clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct Operations(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begun: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    errors: Family<Labels, Counter>,
    timeouts: Family<Labels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    operation_type: &'static str,
}

/// The default buckets of Prometheus clients, as in cri-dockerd.
const BUCKETS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

impl Default for Inner {
    fn default() -> Self {
        Self {
            begun: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            errors: Family::default(),
            timeouts: Family::default(),
        }
    }
}

impl Operations {
    /// Encodes the metrics in the format of Prometheus.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let inner = &self.0;
        let counters = [
            (
                "kubelet_docker_operations",
                "Number of calls to the Docker Engine",
                &inner.begun,
            ),
            (
                "kubelet_docker_operations_errors",
                "Number of failed calls to the Docker Engine",
                &inner.errors,
            ),
            (
                "kubelet_docker_operations_timeout",
                "Number of calls to the Docker Engine that timed out",
                &inner.timeouts,
            ),
        ];
        for (name, help, family) in counters {
            family.encode(encoder.encode_descriptor(name, help, None, family.metric_type())?)?;
        }
        let (name, family) = ("kubelet_docker_operations_duration_seconds", &inner.seconds);
        let help = "Duration of calls to the Docker Engine in seconds";
        family.encode(encoder.encode_descriptor(name, help, None, family.metric_type())?)
    }

    /// Starts the measurement of a call.
    pub(super) fn begin(&self, method: &Method, path: &str) -> Measured {
        Measured {
            operations: self.clone(),
            labels: Labels {
                operation_type: kind(method, path),
            },
            begun: Instant::now(),
            ended: None,
        }
    }

    /// Counts a pull that failed after its response started successfully.
    pub(crate) fn pull_failed(&self) {
        let labels = Labels {
            operation_type: PULL,
        };
        self.0.errors.get_or_create(&labels).inc();
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Well,
    Badly,
    /// The call timed out.
    Late,
}

/// A call in progress. Dropping it counts the call, also if the caller was cancelled.
pub(super) struct Measured {
    operations: Operations,
    labels: Labels,
    begun: Instant,
    ended: Option<Ended>,
}

impl Measured {
    pub(super) fn end(mut self, how: Ended) {
        self.ended = Some(how);
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let (inner, labels) = (&self.operations.0, &self.labels);
        let took = self.begun.elapsed();
        inner.begun.get_or_create(labels).inc();
        inner
            .seconds
            .get_or_create(labels)
            .observe(took.as_secs_f64());
        if self.ended == Some(Ended::Late) {
            inner.timeouts.get_or_create(labels).inc();
        }
        if matches!(self.ended, Some(Ended::Late | Ended::Badly)) {
            inner.errors.get_or_create(labels).inc();
        }
    }
}

/// The operation name of a pull.
const PULL: &str = "pull_image";

/// Returns cri-dockerd's operation name of a call.
fn kind(method: &Method, path: &str) -> &'static str {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
    parts.next_if(|part| part.starts_with("v1."));
    let (what, first, second) = (parts.next(), parts.next(), parts.next());
    match (what.unwrap_or_default(), first.unwrap_or_default(), second) {
        ("containers", "json", None) => "list_containers",
        ("containers", "create", None) => "create_container",
        ("containers", _, Some("json")) if query.contains("size=1") => "inspect_container_withsize",
        ("containers", _, Some("json")) => "inspect_container",
        ("containers", _, Some("start")) => "start_container",
        ("containers", _, Some("stop")) => "stop_container",
        ("containers", _, Some("update")) => "update_container",
        ("containers", _, Some("logs")) => "logs",
        ("containers", _, Some("attach")) => "attach",
        ("containers", _, Some("resize")) => "resize_container",
        ("containers", _, Some("exec")) => "create_exec",
        ("containers", _, None) if *method == Method::DELETE => "remove_container",
        ("exec", _, Some("start")) => "start_exec",
        ("exec", _, Some("json")) => "inspect_exec",
        ("exec", _, Some("resize")) => "resize_exec",
        ("images", "json", None) => "list_images",
        ("images", "create", None) => PULL,
        ("images", _, _) if *method == Method::DELETE => "remove_image",
        // Slashes in image names are escaped.
        ("images", _, Some("json")) => "inspect_image",
        ("images", _, Some("history")) => "image_history",
        ("info", ..) => "info",
        ("version", ..) => "version",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_cri_dockerds_names() {
        for (method, path, name) in [
            (
                Method::GET,
                "/v1.43/containers/json?all=1",
                "list_containers",
            ),
            (
                Method::GET,
                "/v1.43/containers/a/json?size=1",
                "inspect_container_withsize",
            ),
            (Method::GET, "/containers/a/json", "inspect_container"),
            (
                Method::DELETE,
                "/v1.43/containers/a?v=1",
                "remove_container",
            ),
            (
                Method::DELETE,
                "/v1.43/images/a%2Fb?force=0",
                "remove_image",
            ),
            (Method::GET, "/version", "version"),
            (Method::GET, "/v1.43/events?filters=x", "other"),
            (Method::GET, "", "other"),
        ] {
            assert_eq!(kind(&method, path), name, "{path}");
        }
    }

    #[test]
    fn what_took_too_long_is_an_error_and_who_left_sooner_is_none() {
        let operations = Operations::default();
        let begin = || operations.begin(&Method::GET, "/info");
        drop(begin());
        begin().end(Ended::Well);
        begin().end(Ended::Badly);
        begin().end(Ended::Late);
        let labels = Labels {
            operation_type: "info",
        };
        let inner = &operations.0;
        assert_eq!(inner.begun.get_or_create(&labels).get(), 4);
        assert_eq!(inner.errors.get_or_create(&labels).get(), 2);
        assert_eq!(inner.timeouts.get_or_create(&labels).get(), 1);
    }
}
