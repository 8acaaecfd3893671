//! The kubelet's metrics, under its names.

mod pods;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use orlop_cri_api::Rpc;
use orlop_cri_api::client::{Observer, Outcome};
use orlop_kubelet_rules::pod::PullPolicy;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

pub(crate) use pods::PodMetrics;

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// All kubelet metrics.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    probe_registry: Mutex<Registry>,
    pods: PodMetrics,
    operations: Family<Labels, Counter>,
    operation_errors: Family<Labels, Counter>,
    operation_seconds: Histograms,
    sandbox_seconds: Histograms,
    sandbox_errors: Family<Labels, Counter>,
    started_pods: Counter,
    user_namespaced_pods: Counter,
    user_namespaced_pod_errors: Counter,
    started_pod_errors: Family<Labels, Counter>,
    started_containers: Family<Labels, Counter>,
    started_container_errors: Family<Labels, Counter>,
    pull_seconds: Histograms,
    collected_images: Family<Labels, Counter>,
    ensured_images: Family<Labels, Counter>,
    checked_pulls: Family<Labels, Counter>,
    pulls_under_way: Gauge,
    pull_records: Gauge,
    volumes_requested: Counter,
    volumes_mounted: Counter,
    volumes_failed: Counter,
    pod_relist_seconds: Histogram,
    relist_seconds: Histogram,
    relist_interval: Histogram,
    last_seen: Gauge,
    // These counters are gauges, because the format requires a suffix that their names lack.
    events_lost: Gauge,
    event_connections: Gauge,
    event_connection_errors: Gauge,
    event_latency: Histogram,
    running_pods: Gauge<i64, AtomicI64>,
    running_containers: Family<Labels, Gauge>,
    resize_milliseconds: Histogram,
    lifecycle_fallbacks: Counter,
    probes: Family<Labels, Counter>,
    probe_seconds: Histograms,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.5, 14))
}

fn family() -> Histograms {
    Family::new_with_constructor(seconds as fn() -> Histogram)
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let inner = Inner {
            registry: Mutex::default(),
            probe_registry: Mutex::default(),
            pods: PodMetrics::default(),
            operations: Family::default(),
            operation_errors: Family::default(),
            operation_seconds: family(),
            sandbox_seconds: family(),
            sandbox_errors: Family::default(),
            started_pods: Counter::default(),
            user_namespaced_pods: Counter::default(),
            user_namespaced_pod_errors: Counter::default(),
            started_pod_errors: Family::default(),
            started_containers: Family::default(),
            started_container_errors: Family::default(),
            pull_seconds: family(),
            collected_images: Family::default(),
            ensured_images: Family::default(),
            checked_pulls: Family::default(),
            pulls_under_way: Gauge::default(),
            pull_records: Gauge::default(),
            volumes_requested: Counter::default(),
            volumes_mounted: Counter::default(),
            volumes_failed: Counter::default(),
            pod_relist_seconds: seconds(),
            relist_seconds: seconds(),
            relist_interval: seconds(),
            last_seen: Gauge::default(),
            events_lost: Gauge::default(),
            event_connections: Gauge::default(),
            event_connection_errors: Gauge::default(),
            event_latency: seconds(),
            running_pods: Gauge::default(),
            running_containers: Family::default(),
            resize_milliseconds: Histogram::new(exponential_buckets(10.0, 3.0, 10)),
            lifecycle_fallbacks: Counter::default(),
            probes: Family::default(),
            probe_seconds: family(),
        };
        inner.register();
        Self(Arc::new(inner))
    }

    /// Returns an observer that measures calls of the runtime clients.
    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(self.clone())
    }

    /// Returns the metrics about pods as a whole.
    pub(crate) fn pods(&self) -> &PodMetrics {
        &self.0.pods
    }

    /// Encodes the metrics for `/metrics`.
    pub(crate) fn text(&self) -> String {
        written(&self.0.registry)
    }

    /// Encodes the metrics for `/metrics/probes`.
    pub(crate) fn probe_text(&self) -> String {
        written(&self.0.probe_registry)
    }

    pub(crate) fn ensured_image(&self, policy: PullPolicy, present: bool, pulled: bool) {
        let labels = vec![
            ("pull_policy", format!("{policy:?}").to_lowercase()),
            ("present_locally", present.to_string()),
            ("pull_required", pulled.to_string()),
        ];
        self.0.ensured_images.get_or_create(&labels).inc();
    }

    /// Counts a check whether a pod may use an image that is present.
    pub(crate) fn checked_pull(&self, result: &str) {
        let labels = vec![("result", result.to_owned())];
        self.0.checked_pulls.get_or_create(&labels).inc();
    }

    /// Sets the number of records of pulls in progress and of completed pulls.
    pub(crate) fn pull_records(&self, under_way: usize, done: usize) {
        let of = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.0.pulls_under_way.set(of(under_way));
        self.0.pull_records.set(of(done));
    }

    pub(crate) fn pulled_image(&self, took: Duration, size: u64) {
        let bucket = match size >> 20 {
            0..10 => "0-10MB",
            10..100 => "10MB-100MB",
            100..500 => "100MB-500MB",
            500..1024 => "500MB-1GB",
            1024..5120 => "1GB-5GB",
            5120..10240 => "5GB-10GB",
            _ => "GT10GB",
        };
        let labels = vec![("image_size_in_bytes", bucket.to_owned())];
        self.0
            .pull_seconds
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    pub(crate) fn collected_image(&self, reason: &str) {
        let labels = vec![("reason", reason.to_owned())];
        self.0.collected_images.get_or_create(&labels).inc();
    }

    pub(crate) fn ran_sandbox(&self, handler: &str, took: Duration, error: Option<&str>) {
        let labels = vec![("runtime_handler", handler.to_owned())];
        self.0
            .sandbox_seconds
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        self.0.started_pods.inc();
        if let Some(code) = error {
            self.0.sandbox_errors.get_or_create(&labels).inc();
            let labels = vec![("message", code.to_owned())];
            self.0.started_pod_errors.get_or_create(&labels).inc();
        }
    }

    /// Counts a pod with its own user namespace that was started or failed to start.
    pub(crate) fn ran_user_namespaced(&self, failed: bool) {
        self.0.user_namespaced_pods.inc();
        if failed {
            self.0.user_namespaced_pod_errors.inc();
        }
    }

    pub(crate) fn started_container(&self, kind: &str, error: Option<&str>) {
        let mut labels = vec![("container_type", kind.to_owned())];
        self.0.started_containers.get_or_create(&labels).inc();
        if let Some(code) = error {
            labels.push(("code", code.to_owned()));
            self.0.started_container_errors.get_or_create(&labels).inc();
        }
    }

    pub(crate) fn relisted(&self, took: Duration, since_last: Option<Duration>) {
        self.0.relist_seconds.observe(took.as_secs_f64());
        if let Some(since) = since_last {
            self.0.relist_interval.observe(since.as_secs_f64());
        }
        self.0.last_seen.set(crate::clock::now().0 / 1_000_000_000);
    }

    pub(crate) fn events_connected(&self, fine: bool) {
        if fine {
            self.0.event_connections.inc();
        } else {
            self.0.event_connection_errors.inc();
        }
    }

    pub(crate) fn event(&self, latency: Duration) {
        self.0.event_latency.observe(latency.as_secs_f64());
    }

    pub(crate) fn event_without_pod(&self) {
        self.0.events_lost.inc();
    }

    pub(crate) fn running(&self, pods: usize, containers: [usize; 4]) {
        self.0
            .running_pods
            .set(i64::try_from(pods).unwrap_or(i64::MAX));
        for (state, count) in ["created", "running", "exited", "unknown"]
            .iter()
            .zip(containers)
        {
            let labels = vec![("container_state", (*state).to_owned())];
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.0.running_containers.get_or_create(&labels).set(count);
        }
    }

    /// Records how long an observation of a pod took.
    pub(crate) fn looked_at_pod(&self, took: Duration) {
        self.0.pod_relist_seconds.observe(took.as_secs_f64());
    }

    /// Counts an image volume that a container requests.
    pub(crate) fn asked_for_image_volume(&self) {
        self.0.volumes_requested.inc();
    }

    /// Counts the image volumes of a container that was created, or that failed because of them.
    pub(crate) fn mounted_image_volumes(&self, count: usize, failed: bool) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        if failed {
            self.0.volumes_failed.inc_by(count);
        } else {
            self.0.volumes_mounted.inc_by(count);
        }
    }

    pub(crate) fn resized(&self, took: Duration) {
        self.0
            .resize_milliseconds
            .observe(took.as_secs_f64() * 1000.0);
    }

    pub(crate) fn hook_fell_back_to_http(&self) {
        self.0.lifecycle_fallbacks.inc();
    }

    /// Counts a probe of a container.
    pub(crate) fn probed(&self, probe: &ProbeLabels<'_>, result: &str, took: Duration) {
        let mut labels = vec![
            ("probe_type", probe.kind.to_owned()),
            ("container", probe.container.to_owned()),
            ("pod", probe.pod.to_owned()),
            ("namespace", probe.namespace.to_owned()),
        ];
        self.0
            .probe_seconds
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        labels.push(("pod_uid", probe.uid.to_owned()));
        labels.push(("result", result.to_owned()));
        self.0.probes.get_or_create(&labels).inc();
    }

    /// Removes the counters of a probe whose pod is gone.
    pub(crate) fn forget_probe(&self, probe: &ProbeLabels<'_>) {
        let base = vec![
            ("probe_type", probe.kind.to_owned()),
            ("container", probe.container.to_owned()),
            ("pod", probe.pod.to_owned()),
            ("namespace", probe.namespace.to_owned()),
        ];
        self.0.probe_seconds.remove(&base);
        for result in ["successful", "failed", "unknown"] {
            let mut labels = base.clone();
            labels.push(("pod_uid", probe.uid.to_owned()));
            labels.push(("result", result.to_owned()));
            self.0.probes.remove(&labels);
        }
    }
}

/// The labels of a probe: which probe of which container.
pub(crate) struct ProbeLabels<'a> {
    pub(crate) kind: &'static str,
    pub(crate) container: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) uid: &'a str,
}

impl Observer for Metrics {
    fn ended(&self, rpc: Rpc, took: Duration, outcome: Outcome) {
        let labels = vec![("operation_type", operation(rpc))];
        self.0.operations.get_or_create(&labels).inc();
        self.0
            .operation_seconds
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        if outcome.is_err() {
            self.0.operation_errors.get_or_create(&labels).inc();
        }
    }
}

/// Returns the kubelet's name of a call: `run_podsandbox` for `RunPodSandbox`.
fn operation(rpc: Rpc) -> String {
    let name = rpc.to_string();
    let name = name
        .replace("PodSandboxes", "Podsandbox")
        .replace("PodSandbox", "Podsandbox");
    let mut text = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

fn written(registry: &Mutex<Registry>) -> String {
    let registry = registry.lock();
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

impl Inner {
    fn register(&self) {
        let mut registry = self.registry.lock();
        let r = registry.sub_registry_with_prefix("kubelet");
        self.pods.register(r);
        r.register(
            "runtime_operations",
            "Cumulative number of runtime operations by operation type",
            self.operations.clone(),
        );
        r.register(
            "runtime_operations_errors",
            "Cumulative number of runtime operation errors by operation type",
            self.operation_errors.clone(),
        );
        r.register(
            "runtime_operations_duration_seconds",
            "Duration in seconds of runtime operations by operation type",
            self.operation_seconds.clone(),
        );
        r.register(
            "run_podsandbox_duration_seconds",
            "Duration in seconds of pod sandbox creation by runtime handler",
            self.sandbox_seconds.clone(),
        );
        r.register(
            "run_podsandbox_errors",
            "Cumulative number of failed pod sandbox creations by runtime handler",
            self.sandbox_errors.clone(),
        );
        r.register(
            "started_pods",
            "Cumulative number of pods started",
            self.started_pods.clone(),
        );
        r.register(
            "started_pods_errors",
            "Cumulative number of errors when starting pods",
            self.started_pod_errors.clone(),
        );
        r.register(
            "started_user_namespaced_pods",
            "Cumulative number of pods with user namespaces started",
            self.user_namespaced_pods.clone(),
        );
        r.register(
            "started_user_namespaced_pods_errors",
            "Cumulative number of errors when starting pods with user namespaces",
            self.user_namespaced_pod_errors.clone(),
        );
        r.register(
            "started_containers",
            "Cumulative number of containers started",
            self.started_containers.clone(),
        );
        r.register(
            "started_containers_errors",
            "Cumulative number of errors when starting containers",
            self.started_container_errors.clone(),
        );
        r.register(
            "image_pull_duration_seconds",
            "Duration in seconds of image pulls",
            self.pull_seconds.clone(),
        );
        r.register(
            "image_garbage_collected",
            "Total number of images garbage collected",
            self.collected_images.clone(),
        );
        r.register(
            "image_manager_ensure_image_requests",
            "Cumulative number of requests to ensure that an image is present",
            self.ensured_images.clone(),
        );
        r.register(
            "imagemanager_image_mustpull_checks",
            "Cumulative number of checks whether a pod must pull an image that is already present",
            self.checked_pulls.clone(),
        );
        r.register(
            "imagemanager_ondisk_pullintents",
            "Number of records of image pulls in progress",
            self.pulls_under_way.clone(),
        );
        r.register(
            "imagemanager_ondisk_pulledrecords",
            "Number of records of completed image pulls",
            self.pull_records.clone(),
        );
        r.register(
            "pleg_relist_duration_seconds",
            "Duration in seconds of listing all pods",
            self.relist_seconds.clone(),
        );
        r.register(
            "pleg_relist_interval_seconds",
            "Interval in seconds between listings of all pods",
            self.relist_interval.clone(),
        );
        r.register(
            "pleg_last_seen_seconds",
            "Time of the last listing of all pods since unix epoch in seconds",
            self.last_seen.clone(),
        );
        r.register(
            "pleg_pod_relist_duration_seconds",
            "Duration in seconds of inspecting a single pod",
            self.pod_relist_seconds.clone(),
        );
        r.register(
            "image_volume_requested",
            "Number of requested image volumes",
            self.volumes_requested.clone(),
        );
        r.register(
            "image_volume_mounted_succeed",
            "Number of successful image volume mounts",
            self.volumes_mounted.clone(),
        );
        r.register(
            "image_volume_mounted_errors",
            "Number of failed image volume mounts",
            self.volumes_failed.clone(),
        );
        r.register(
            "pleg_discard_events",
            "Number of discarded events that belong to no pod",
            self.events_lost.clone(),
        );
        r.register(
            "evented_pleg_connection_success_count",
            "Number of event streams opened",
            self.event_connections.clone(),
        );
        r.register(
            "evented_pleg_connection_error_count",
            "Number of event streams that failed or could not be opened",
            self.event_connection_errors.clone(),
        );
        r.register(
            "evented_pleg_connection_latency_seconds",
            "Latency in seconds from an event to its arrival",
            self.event_latency.clone(),
        );
        r.register(
            "running_pods",
            "Number of pods that have a running pod sandbox",
            self.running_pods.clone(),
        );
        r.register(
            "running_containers",
            "Number of containers by state",
            self.running_containers.clone(),
        );
        r.register(
            "pod_resize_duration_milliseconds",
            "Duration in milliseconds of in-place pod resizes",
            self.resize_milliseconds.clone(),
        );
        r.register(
            "lifecycle_handler_http_fallbacks",
            "Number of lifecycle handlers that fell back from HTTPS to HTTP",
            self.lifecycle_fallbacks.clone(),
        );
        let mut registry = self.probe_registry.lock();
        let r = registry.sub_registry_with_prefix("prober");
        r.register(
            "probe",
            "Cumulative number of container probes by result",
            self.probes.clone(),
        );
        r.register(
            "probe_duration_seconds",
            "Duration in seconds of container probes",
            self.probe_seconds.clone(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_kubelets_names() {
        let metrics = Metrics::new();
        for (rpc, took) in [
            (Rpc::RunPodSandbox, 10),
            (Rpc::PodSandboxStatus, 1),
            (Rpc::CreateContainer, 1),
            (Rpc::GetContainerEvents, 1),
        ] {
            metrics.ended(rpc, Duration::from_millis(took), Err(tonic::Code::Internal));
        }
        let text = metrics.text();
        for name in [
            "run_podsandbox",
            "podsandbox_status",
            "create_container",
            "get_container_events",
        ] {
            let line =
                format!("kubelet_runtime_operations_errors_total{{operation_type=\"{name}\"}} 1");
            assert!(text.contains(&line), "{line} not in {text}");
        }
        assert!(text.contains("kubelet_running_pods 0"), "{text}");
    }
}
