//! What pods use: `/stats/summary` and `/metrics/resource`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use orlop_cri::v1;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::Timestamp;
use crate::agent::capacity::meminfo;
use crate::agent::disk;
use crate::agent::shared::{Shared, now, time};
use crate::manager::PodView;

/// All that is known at one moment.
struct Usage {
    pods: Vec<Arc<PodView>>,
    sandboxes: BTreeMap<String, v1::PodSandboxStats>,
    containers: BTreeMap<(String, String), v1::ContainerStats>,
    /// What could not be asked.
    failed: bool,
}

async fn usage(shared: &Shared) -> Usage {
    let manager = shared.manager();
    let (sandboxes, containers) = tokio::join!(manager.pod_stats(), manager.container_stats());
    // A runtime need not know of pods; one that knows of no containers is broken.
    let failed = containers.is_err();
    let errors = [sandboxes.as_ref().err(), containers.as_ref().err()];
    for error in errors.into_iter().flatten() {
        tracing::debug!(%error, "asking what pods use");
    }
    Usage {
        pods: manager.pods(),
        sandboxes: sandboxes.unwrap_or_default(),
        containers: containers.unwrap_or_default(),
        failed,
    }
}

fn value(it: Option<&v1::UInt64Value>) -> Option<u64> {
    it.map(|it| it.value)
}

impl Usage {
    fn containers_of<'u>(
        &'u self,
        uid: &'u str,
    ) -> impl Iterator<Item = (&'u str, &'u v1::ContainerStats)> + 'u {
        let begin = (uid.to_owned(), String::new());
        self.containers
            .range(begin..)
            .take_while(move |((of, _), _)| of == uid)
            .map(|((_, name), stats)| (name.as_str(), stats))
    }

    /// What the whole pod has used of the processors, in seconds: its sandbox's, or else the sum.
    fn pod_cpu(&self, uid: &str) -> Option<f64> {
        let sandbox = self.sandboxes.get(uid).and_then(|it| it.linux.as_ref());
        let own = sandbox
            .and_then(|it| it.cpu.as_ref())
            .and_then(|cpu| value(cpu.usage_core_nano_seconds.as_ref()));
        let sum = || {
            let all = self.containers_of(uid).filter_map(|(_, it)| cpu(it));
            all.reduce(|a, b| a + b)
        };
        own.or_else(sum).map(|nanos| nanos as f64 / 1e9)
    }

    fn pod_memory(&self, uid: &str) -> Option<u64> {
        let sandbox = self.sandboxes.get(uid).and_then(|it| it.linux.as_ref());
        let own = sandbox
            .and_then(|it| it.memory.as_ref())
            .and_then(|memory| value(memory.working_set_bytes.as_ref()));
        own.or_else(|| {
            let all = self
                .containers_of(uid)
                .filter_map(|(_, it)| working_set(it));
            all.reduce(|a, b| a + b)
        })
    }
}

fn cpu(stats: &v1::ContainerStats) -> Option<u64> {
    value(stats.cpu.as_ref()?.usage_core_nano_seconds.as_ref())
}

fn working_set(stats: &v1::ContainerStats) -> Option<u64> {
    value(stats.memory.as_ref()?.working_set_bytes.as_ref())
}

/// `/stats/summary`.
pub(in crate::agent) async fn summary(shared: &Shared) -> Value {
    let usage = usage(shared).await;
    let options = shared.manager().options().clone();
    let image_fs = shared.manager().images().image_fs_info().await.ok();
    let views = usage.pods.clone();
    let (root, logs) = (options.root_dir.clone(), options.pod_logs_dir.clone());
    let disks = spawn_blocking(move || {
        let mut sizes = BTreeMap::new();
        for pod in &views {
            let name = format!("{}_{}_{}", pod.namespace, pod.name, pod.uid);
            let own = disk::usage(&root.join("pods").join(&pod.uid), false);
            sizes.insert(pod.uid.clone(), own + disk::usage(&logs.join(name), false));
        }
        (sizes, filesystem(&root), meminfo())
    });
    let (sizes, node_fs, memory) = disks.await.unwrap_or_default();
    let pods: Vec<Value> = usage
        .pods
        .iter()
        .map(|pod| {
            let size = sizes.get(&pod.uid).copied().unwrap_or_default();
            pod_summary(&usage, pod, size)
        })
        .collect();
    let at = time(now());
    let field = |name: &str| memory.get(name).copied().unwrap_or_default();
    let total = field("MemTotal");
    let available = field("MemFree") + field("Inactive(file)");
    let image_fs = image_fs.and_then(|answer| {
        let first = answer.image_filesystems.into_iter().next()?;
        let mut found = filesystem(Path::new(&first.fs_id?.mountpoint));
        found["usedBytes"] = json!(value(first.used_bytes.as_ref()));
        Some(found)
    });
    json!({
        "node": {
            "nodeName": shared.options().node_name,
            "startTime": time(shared.started()),
            "cpu": {"time": at, "usageCoreNanoSeconds": node_cpu_nanos()},
            "memory": {
                "time": at,
                "availableBytes": available,
                "usageBytes": total.saturating_sub(field("MemFree")),
                "workingSetBytes": total.saturating_sub(available),
            },
            "fs": node_fs,
            "runtime": {"imageFs": image_fs},
        },
        "pods": pods,
    })
}

fn pod_summary(usage: &Usage, pod: &PodView, local: u64) -> Value {
    let uid = pod.uid.as_str();
    let started = time(pod.start_time);
    let containers: Vec<Value> = usage
        .containers_of(uid)
        .map(|(name, stats)| container_summary(pod, name, stats))
        .collect();
    let linux = usage.sandboxes.get(uid).and_then(|it| it.linux.as_ref());
    let layers: u64 = usage
        .containers_of(uid)
        .filter_map(|(_, it)| value(it.writable_layer.as_ref()?.used_bytes.as_ref()))
        .sum();
    let mut summary = json!({
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": uid},
        "startTime": started,
        "containers": containers,
        "ephemeral-storage": {"time": time(now()), "usedBytes": local + layers},
    });
    if let Some(cpu) = linux.and_then(|it| it.cpu.as_ref()) {
        summary["cpu"] = cpu_json(cpu);
    } else if let Some(seconds) = usage.pod_cpu(uid) {
        summary["cpu"] =
            json!({"time": time(now()), "usageCoreNanoSeconds": (seconds * 1e9) as u64});
    }
    if let Some(memory) = linux.and_then(|it| it.memory.as_ref()) {
        summary["memory"] = memory_json(memory);
    } else if let Some(bytes) = usage.pod_memory(uid) {
        summary["memory"] = json!({"time": time(now()), "workingSetBytes": bytes});
    }
    if let Some(network) = linux.and_then(|it| it.network.as_ref()) {
        let interface = |it: &v1::NetworkInterfaceUsage| {
            json!({
                "name": it.name,
                "rxBytes": value(it.rx_bytes.as_ref()),
                "rxErrors": value(it.rx_errors.as_ref()),
                "txBytes": value(it.tx_bytes.as_ref()),
                "txErrors": value(it.tx_errors.as_ref()),
            })
        };
        let mut all = network
            .default_interface
            .as_ref()
            .map_or_else(|| json!({}), interface);
        all["time"] = json!(time(Timestamp(network.timestamp)));
        let others = network.interfaces.iter();
        all["interfaces"] = network
            .default_interface
            .iter()
            .chain(others)
            .map(interface)
            .collect();
        summary["network"] = all;
    }
    if let Some(process) = linux.and_then(|it| it.process.as_ref()) {
        summary["process_stats"] = json!({"process_count": value(process.process_count.as_ref())});
    }
    summary
}

fn container_summary(pod: &PodView, name: &str, stats: &v1::ContainerStats) -> Value {
    let mut summary = json!({"name": name, "startTime": container_start(pod, name)});
    if let Some(cpu) = &stats.cpu {
        summary["cpu"] = cpu_json(cpu);
    }
    if let Some(memory) = &stats.memory {
        summary["memory"] = memory_json(memory);
    }
    if let Some(layer) = &stats.writable_layer {
        summary["rootfs"] = json!({
            "time": time(Timestamp(layer.timestamp)),
            "usedBytes": value(layer.used_bytes.as_ref()),
            "inodesUsed": value(layer.inodes_used.as_ref()),
        });
    }
    summary
}

/// When a container was last started, as the pod's status has it.
fn container_start<'p>(pod: &'p PodView, name: &str) -> Option<&'p str> {
    let lists = [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ];
    let statuses = lists
        .iter()
        .flat_map(|list| pod.status[*list].as_array().into_iter().flatten());
    let mut found = statuses.filter(|status| status["name"] == name);
    found.next()?["state"]["running"]["startedAt"].as_str()
}

fn cpu_json(cpu: &v1::CpuUsage) -> Value {
    json!({
        "time": time(Timestamp(cpu.timestamp)),
        "usageNanoCores": value(cpu.usage_nano_cores.as_ref()),
        "usageCoreNanoSeconds": value(cpu.usage_core_nano_seconds.as_ref()),
    })
}

fn memory_json(memory: &v1::MemoryUsage) -> Value {
    json!({
        "time": time(Timestamp(memory.timestamp)),
        "availableBytes": value(memory.available_bytes.as_ref()),
        "usageBytes": value(memory.usage_bytes.as_ref()),
        "workingSetBytes": value(memory.working_set_bytes.as_ref()),
        "rssBytes": value(memory.rss_bytes.as_ref()),
        "pageFaults": value(memory.page_faults.as_ref()),
        "majorPageFaults": value(memory.major_page_faults.as_ref()),
    })
}

fn filesystem(path: &Path) -> Value {
    let Ok(found) = rustix::fs::statvfs(path) else {
        return Value::Null;
    };
    let block = found.f_frsize;
    json!({
        "time": time(now()),
        "availableBytes": found.f_bavail.saturating_mul(block),
        "capacityBytes": found.f_blocks.saturating_mul(block),
        "usedBytes": found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(block),
        "inodesFree": found.f_favail,
        "inodes": found.f_files,
        "inodesUsed": found.f_files.saturating_sub(found.f_ffree),
    })
}

/// The processors' time that was not spent idle, of all together.
fn node_cpu_nanos() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .map_while(|it| it.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guests are in user already.
    let busy: u64 = ticks.iter().take(8).sum::<u64>()
        - ticks.get(3).copied().unwrap_or_default()
        - ticks.get(4).copied().unwrap_or_default();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(busy.saturating_mul(1_000_000_000 / per_second))
}

/// `/metrics/resource`.
pub(super) async fn resource_metrics(shared: &Shared) -> String {
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
    for pod in &usage.pods {
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
        if let Some(bytes) = usage.pod_memory(&pod.uid) {
            let _ = writeln!(pod_memories, "pod_memory_working_set_bytes{{{of}}} {bytes}");
        }
    }
    for part in [cpus, memories, starts, pod_cpus, pod_memories] {
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
    let name = "resource_scrape_error";
    text.push_str(&head(
        name,
        "1 if there was an error while getting container metrics, 0 otherwise",
        "gauge",
    ));
    let _ = writeln!(text, "{name} {}", u8::from(usage.failed));
    text
}
