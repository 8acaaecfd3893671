//! `/metrics/resource`: CPU and memory usage as metrics.

use std::fmt::Write as _;

use super::node::node_cpu_nanos;
use super::usage::{container_start, cpu, usage, value, working_set};
use crate::meminfo::meminfo;
use crate::shared::Shared;

/// Builds the text of `/metrics/resource`.
pub(crate) async fn resource_metrics(shared: &Shared) -> String {
    let usage = usage(shared).await;
    let mut text = String::new();
    let head = |name: &str, help: &str, kind: &str| {
        format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")
    };
    let cpu_head = head(
        "container_cpu_usage_seconds_total",
        "Cumulative cpu time consumed by the container in core-seconds",
        "counter",
    );
    let memory_head = head(
        "container_memory_working_set_bytes",
        "Current working set of the container in bytes",
        "gauge",
    );
    let start_head = head(
        "container_start_time_seconds",
        "Start time of the container since unix epoch in seconds",
        "gauge",
    );
    let (mut cpus, mut memories, mut starts) = (cpu_head, memory_head, start_head);
    let mut pod_cpus = head(
        "pod_cpu_usage_seconds_total",
        "Cumulative cpu time consumed by the pod in core-seconds",
        "counter",
    );
    let mut pod_memories = head(
        "pod_memory_working_set_bytes",
        "Current working set of the pod in bytes",
        "gauge",
    );
    let (mut swaps, mut swap_limits, mut pod_swaps) = (
        head(
            "container_swap_usage_bytes",
            "Current amount of the container swap usage in bytes. Reported only on non-windows systems",
            "gauge",
        ),
        head(
            "container_swap_limit_bytes",
            "Current amount of the container swap limit in bytes. Reported only on non-windows systems",
            "gauge",
        ),
        head(
            "pod_swap_usage_bytes",
            "Current amount of the pod swap usage in bytes. Reported only on non-windows systems",
            "gauge",
        ),
    );
    for pod in &usage.pods {
        let mut pod_swap = None;
        let of = format!("namespace=\"{}\",pod=\"{}\"", pod.namespace, pod.name);
        for (name, stats) in usage.containers_of(&pod.uid) {
            let labels = format!("{{container=\"{name}\",{of}}}");
            if let Some(nanos) = cpu(stats) {
                let seconds = nanos as f64 / 1e9;
                let _ = writeln!(cpus, "container_cpu_usage_seconds_total{labels} {seconds}");
            }
            if let Some(bytes) = working_set(stats) {
                let _ = writeln!(
                    memories,
                    "container_memory_working_set_bytes{labels} {bytes}"
                );
            }
            if let Some(swap) = &stats.swap {
                let used = value(swap.swap_usage_bytes.as_ref());
                let free = value(swap.swap_available_bytes.as_ref());
                if let Some(used) = used {
                    let _ = writeln!(swaps, "container_swap_usage_bytes{labels} {used}");
                    *pod_swap.get_or_insert(0) += used;
                }
                if let (Some(used), Some(free)) = (used, free) {
                    let limit = used.saturating_add(free);
                    let _ = writeln!(swap_limits, "container_swap_limit_bytes{labels} {limit}");
                }
            }
            let started =
                container_start(pod, name).and_then(|it| it.parse::<jiff::Timestamp>().ok());
            if let Some(started) = started {
                let seconds = started.as_second();
                let _ = writeln!(starts, "container_start_time_seconds{labels} {seconds}");
            }
        }
        if let Some(seconds) = usage.pod_cpu(&pod.uid) {
            let _ = writeln!(pod_cpus, "pod_cpu_usage_seconds_total{{{of}}} {seconds}");
        }
        if let Some(bytes) = pod_swap {
            let _ = writeln!(pod_swaps, "pod_swap_usage_bytes{{{of}}} {bytes}");
        }
        if let Some(bytes) = usage.pod_memory(&pod.uid) {
            let _ = writeln!(pod_memories, "pod_memory_working_set_bytes{{{of}}} {bytes}");
        }
    }
    for part in [
        cpus,
        memories,
        starts,
        swaps,
        swap_limits,
        pod_cpus,
        pod_memories,
        pod_swaps,
    ] {
        text.push_str(&part);
    }
    if let Some(nanos) = node_cpu_nanos() {
        let name = "node_cpu_usage_seconds_total";
        text.push_str(&head(
            name,
            "Cumulative cpu time consumed by the node in core-seconds",
            "counter",
        ));
        let _ = writeln!(text, "{name} {}", nanos as f64 / 1e9);
    }
    let memory = meminfo();
    let field = |name: &str| memory.get(name).copied().unwrap_or_default();
    let working = field("MemTotal").saturating_sub(field("MemFree") + field("Inactive(file)"));
    let name = "node_memory_working_set_bytes";
    text.push_str(&head(
        name,
        "Current working set of the node in bytes",
        "gauge",
    ));
    let _ = writeln!(text, "{name} {working}");
    let name = "node_swap_usage_bytes";
    text.push_str(&head(
        name,
        "Current swap usage of the node in bytes. Reported only on non-windows systems",
        "gauge",
    ));
    let swapped = field("SwapTotal").saturating_sub(field("SwapFree"));
    let _ = writeln!(text, "{name} {swapped}");
    let name = "resource_scrape_error";
    text.push_str(&head(
        name,
        "1 if there was an error while getting container metrics, 0 otherwise",
        "gauge",
    ));
    let _ = writeln!(text, "{name} {}", u8::from(usage.failed));
    text
}
