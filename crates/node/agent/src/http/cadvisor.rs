//! `/metrics/cadvisor`: the runtime's measurements, with cAdvisor's names.
//!
//! If the runtime supports `ListPodSandboxMetrics`, these are its own metrics. For others, the most
//! used ones are built from container statistics.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use orlop_cri_api::v1;

use crate::shared::Shared;

pub(super) async fn metrics(shared: &Shared) -> String {
    let runtime = shared.manager().runtime();
    let asked = tokio::join!(
        runtime.list_metric_descriptors(),
        runtime.list_pod_sandbox_metrics()
    );
    let mut text = match asked {
        (Ok(descriptors), Ok(pods)) if !descriptors.is_empty() => of_runtime(&descriptors, &pods),
        (descriptors, pods) => {
            for error in [descriptors.err(), pods.err()].into_iter().flatten() {
                tracing::debug!(%error, "cannot list the runtime's own metrics");
            }
            from_stats(shared).await
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = crate::meminfo::meminfo();
    let memory = memory.get("MemTotal").copied().unwrap_or_default();
    let _ = writeln!(
        text,
        "# HELP machine_cpu_cores Number of logical CPU cores.\n# TYPE machine_cpu_cores gauge\n\
         machine_cpu_cores {cores}\n# HELP machine_memory_bytes Amount of memory installed on the \
         machine.\n# TYPE machine_memory_bytes gauge\nmachine_memory_bytes {memory}"
    );
    text
}

/// Formats the runtime's own metrics, grouped by name as the text format requires.
fn of_runtime(descriptors: &[v1::MetricDescriptor], pods: &[v1::PodSandboxMetrics]) -> String {
    let by_name: BTreeMap<&str, &v1::MetricDescriptor> = descriptors
        .iter()
        .map(|it| (it.name.as_str(), it))
        .collect();
    let mut families: BTreeMap<&str, Vec<&v1::Metric>> = BTreeMap::new();
    for pod in pods {
        let of_containers = pod.container_metrics.iter().flat_map(|it| &it.metrics);
        for metric in pod.metrics.iter().chain(of_containers) {
            families.entry(&metric.name).or_default().push(metric);
        }
    }
    let mut text = String::new();
    for (name, metrics) in families {
        // Without a descriptor, the names of the labels are unknown.
        let Some(descriptor) = by_name.get(name) else {
            continue;
        };
        let kind = match metrics.first().map(|metric| metric.metric_type()) {
            Some(v1::MetricType::Counter) => "counter",
            _ => "gauge",
        };
        let help = descriptor.help.replace('\n', " ");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for metric in metrics {
            let labels: Vec<String> = descriptor
                .label_keys
                .iter()
                .zip(metric.label_values.iter())
                .map(|(key, value)| format!("{key}=\"{}\"", escaped(value)))
                .collect();
            let value = metric.value.as_ref().map_or(0, |it| it.value);
            let millis = metric.timestamp / 1_000_000;
            let _ = write!(text, "{name}{{{}}} {value}", labels.join(","));
            let _ = if millis > 0 {
                writeln!(text, " {millis}")
            } else {
                writeln!(text)
            };
        }
    }
    text
}

async fn from_stats(shared: &Shared) -> String {
    let stats = shared.manager().container_stats().await.unwrap_or_default();
    let pods = shared.manager().pods();
    let names: BTreeMap<&str, (&str, &str)> = pods
        .iter()
        .map(|pod| {
            (
                pod.uid.as_str(),
                (pod.namespace.as_str(), pod.name.as_str()),
            )
        })
        .collect();
    let mut families: BTreeMap<&str, (&str, Vec<String>)> = BTreeMap::new();
    for ((uid, container), stats) in &stats {
        let (namespace, pod) = names.get(uid.as_str()).copied().unwrap_or_default();
        let attributes = stats.attributes.clone().unwrap_or_default();
        let labels = format!(
            "container=\"{container}\",id=\"{}\",namespace=\"{namespace}\",pod=\"{pod}\"",
            escaped(&attributes.id)
        );
        let mut put = |name: &'static str, kind: &'static str, value: Option<f64>| {
            if let Some(value) = value {
                let family = families.entry(name).or_insert((kind, Vec::new()));
                family.1.push(format!("{name}{{{labels}}} {value}"));
            }
        };
        let number = |it: Option<&v1::UInt64Value>| it.map(|it| it.value as f64);
        let cpu = stats.cpu.as_ref();
        let cpu = cpu.and_then(|it| number(it.usage_core_nano_seconds.as_ref()));
        put(
            "container_cpu_usage_seconds_total",
            "counter",
            cpu.map(|it| it / 1e9),
        );
        let memory = stats.memory.as_ref();
        let of = |get: fn(&v1::MemoryUsage) -> Option<&v1::UInt64Value>| {
            memory.and_then(|memory| number(get(memory)))
        };
        let working = of(|it| it.working_set_bytes.as_ref());
        put("container_memory_working_set_bytes", "gauge", working);
        let usage = of(|it| it.usage_bytes.as_ref());
        put("container_memory_usage_bytes", "gauge", usage);
        put(
            "container_memory_rss",
            "gauge",
            of(|it| it.rss_bytes.as_ref()),
        );
        let layer = stats.writable_layer.as_ref();
        let layer = layer.and_then(|it| number(it.used_bytes.as_ref()));
        put("container_fs_usage_bytes", "gauge", layer);
    }
    let mut text = String::new();
    for (name, (kind, lines)) in families {
        let _ = writeln!(text, "# TYPE {name} {kind}");
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Escapes the value of a label for the text format.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_a_runtime_stand_together_by_name() {
        let descriptor = v1::MetricDescriptor {
            name: "m".to_owned(),
            help: "help".to_owned(),
            label_keys: vec!["a".to_owned(), "b".to_owned()],
        };
        let metric = |value| v1::Metric {
            name: "m".into(),
            timestamp: 5_000_000,
            metric_type: v1::MetricType::Gauge.into(),
            label_values: vec!["x\"y".to_owned(), String::new()].into(),
            value: Some(v1::UInt64Value { value }),
        };
        let unknown = v1::Metric {
            name: "unknown".into(),
            ..metric(9)
        };
        let pod = |metrics| v1::PodSandboxMetrics {
            metrics,
            ..v1::PodSandboxMetrics::default()
        };
        let text = of_runtime(
            &[descriptor],
            &[pod(vec![metric(1), unknown]), pod(vec![metric(2)])],
        );
        assert_eq!(
            text,
            "# HELP m help\n# TYPE m gauge\nm{a=\"x\\\"y\",b=\"\"} 1 5\nm{a=\"x\\\"y\",b=\"\"} 2 5\n"
        );
    }
}
