//! `/stats/summary`: resource usage as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use orlop_cri_api::v1;
use orlop_kubelet_rules::Timestamp;
use orlop_kuberuntime::manager::{Manager, PodView};
use orlop_kuberuntime::measure::{IN_A_HURRY, measure};
use orlop_pool::blocking;
use serde_json::{Value, json};

use super::node::{boot_time, filesystem, network, node_cpu_nanos, page_faults, pressure, rlimit};
use super::system::{self, Part};
use super::usage::{Usage, container_start, usage, value};
use crate::meminfo::meminfo;
use crate::rates::Rates;
use crate::shared::{Shared, now, time};

/// The size of a directory tree: bytes and files.
type Size = (u64, u64);

/// Measurements of the node's disks and processes.
#[derive(Default)]
struct Disks {
    /// Volumes and logs, by pod.
    pods: BTreeMap<String, Size>,
    /// Logs, by pod and container.
    logs: BTreeMap<(String, String), Size>,
    node: Value,
    log: Value,
    memory: BTreeMap<String, u64>,
    /// The system containers, by the kubelet's names.
    system: Vec<(&'static str, Part)>,
}

/// The state for building a summary.
struct Making<'m> {
    usage: &'m Usage,
    disks: &'m Disks,
    /// The file system of the containers' writable layers.
    layers: Value,
    rates: &'m Rates,
    keys: BTreeSet<String>,
}

/// Builds the answer of `/stats/summary`.
pub(crate) async fn summary(shared: &Shared) -> Value {
    let usage = usage(shared).await;
    let image_fs = shared.manager().images().image_fs_info().await.ok();
    let disks = disks(shared, &usage).await;
    let runtime_fs = |list: &[v1::FilesystemUsage]| {
        let first = list.first()?;
        let mut found = filesystem(Path::new(&first.fs_id.as_ref()?.mountpoint));
        if found.is_object() {
            found["usedBytes"] = json!(value(first.used_bytes.as_ref()));
            found["inodesUsed"] = json!(value(first.inodes_used.as_ref()));
        }
        Some(found)
    };
    let (images, containers) = image_fs.map_or((None, None), |answer| {
        let images = runtime_fs(&answer.image_filesystems);
        let containers = runtime_fs(&answer.container_filesystems);
        (images.clone(), containers.or(images))
    });
    let mut making = Making {
        usage: &usage,
        disks: &disks,
        layers: containers.clone().unwrap_or_default(),
        rates: shared.rates(),
        keys: BTreeSet::new(),
    };
    let pods: Vec<Value> = usage.pods.iter().map(|pod| making.pod(pod)).collect();
    let node = making.node(shared, images, containers);
    shared.rates().keep(&making.keys);
    let mut all = json!({"node": node, "pods": pods});
    drop_nulls(&mut all);
    all
}

async fn disks(shared: &Shared, usage: &Usage) -> Disks {
    let options = shared.manager().options().clone();
    let manager = shared.manager().clone();
    let names: Vec<_> = usage.containers.keys().cloned().collect();
    let pods = usage.pods.clone();
    let work = move || {
        let (root, logs) = (&options.root_dir, &options.pod_logs_dir);
        let size = |path: &Path| {
            let measured = measure(path, IN_A_HURRY);
            (measured.bytes, measured.inodes)
        };
        let mut found = Disks {
            node: filesystem(root),
            log: filesystem(logs),
            memory: meminfo(),
            system: parts(&manager),
            ..Disks::default()
        };
        for pod in pods {
            let logs = logs.join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid));
            let (own, log) = (size(&root.join("pods").join(&pod.uid)), size(&logs));
            found
                .pods
                .insert(pod.uid.clone(), (own.0 + log.0, own.1 + log.1));
            for (uid, container) in names.iter().filter(|(uid, _)| *uid == pod.uid) {
                let key = (uid.clone(), container.clone());
                found.logs.insert(key, size(&logs.join(container)));
            }
        }
        found
    };
    blocking(work).await.unwrap_or_default()
}

/// Measures the system containers: this agent, the runtime, and all pods together.
fn parts(manager: &Manager) -> Vec<(&'static str, Part)> {
    let boot = boot_time();
    let pods = manager.pods_usage().map(|usage| Part {
        started: boot,
        cpu: usage.cpu,
        memory: usage,
    });
    let endpoint = &manager.options().runtime_endpoint;
    [
        ("kubelet", system::own(boot)),
        ("runtime", system::runtime(endpoint, boot)),
        ("pods", pods),
    ]
    .into_iter()
    .filter_map(|(name, part)| Some((name, part?)))
    .collect()
}

impl Making<'_> {
    fn pod(&mut self, pod: &PodView) -> Value {
        let uid = pod.uid.as_str();
        let usage = self.usage;
        let containers: Vec<Value> = usage
            .containers_of(uid)
            .map(|(name, stats)| self.container(pod, name, stats))
            .collect();
        let linux = usage.sandboxes.get(uid).and_then(|it| it.linux.as_ref());
        let layers = usage
            .containers_of(uid)
            .filter_map(|(_, it)| it.writable_layer.as_ref())
            .map(|it| {
                let of = |field: Option<&v1::UInt64Value>| value(field).unwrap_or_default();
                (of(it.used_bytes.as_ref()), of(it.inodes_used.as_ref()))
            });
        let local = self.disks.pods.get(uid).copied().unwrap_or_default();
        let (bytes, files) = layers.fold(local, |a, b| (a.0 + b.0, a.1 + b.1));
        let mut summary = json!({
            "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": uid},
            "startTime": time(pod.start_time),
            "containers": containers,
            "ephemeral-storage": sized(&self.disks.node, bytes, Some(files)),
        });
        let begin = pod.start_time.0;
        if let Some(cpu) = linux.and_then(|it| it.cpu.as_ref()) {
            summary["cpu"] = self.cpu(uid, begin, cpu);
        } else if let Some(seconds) = usage.pod_cpu(uid) {
            let cpu = v1::CpuUsage {
                timestamp: now().0,
                usage_core_nano_seconds: Some(v1::UInt64Value {
                    value: (seconds * 1e9) as u64,
                }),
                ..v1::CpuUsage::default()
            };
            summary["cpu"] = self.cpu(uid, begin, &cpu);
        }
        if let Some(memory) = linux.and_then(|it| it.memory.as_ref()) {
            summary["memory"] = memory_json(memory);
        } else if let Some(bytes) = usage.pod_memory(uid) {
            summary["memory"] = json!({"time": time(now()), "workingSetBytes": bytes});
        }
        if let Some(network) = linux.and_then(|it| it.network.as_ref()) {
            summary["network"] = network_json(network);
        }
        if let Some(io) = linux.and_then(|it| it.io.as_ref()) {
            summary["io"] = io_json(io);
        }
        let swapped: Vec<u64> = usage
            .containers_of(uid)
            .filter_map(|(_, it)| value(it.swap.as_ref()?.swap_usage_bytes.as_ref()))
            .collect();
        if !swapped.is_empty() {
            let sum: u64 = swapped.iter().sum();
            summary["swap"] = json!({"time": time(now()), "swapUsageBytes": sum});
        }
        if let Some(process) = linux.and_then(|it| it.process.as_ref()) {
            let count = value(process.process_count.as_ref());
            summary["process_stats"] = json!({"process_count": count});
        }
        summary
    }

    fn container(&mut self, pod: &PodView, name: &str, stats: &v1::ContainerStats) -> Value {
        let started = container_start(pod, name);
        let mut summary = json!({"name": name, "startTime": started});
        if let Some(cpu) = &stats.cpu {
            let id = stats.attributes.as_ref().map(|it| it.id.as_str());
            let begin = started
                .and_then(|it| it.parse::<jiff::Timestamp>().ok())
                .map_or(pod.start_time.0, |it| it.as_second() * 1_000_000_000);
            summary["cpu"] = self.cpu(id.unwrap_or(name), begin, cpu);
        }
        if let Some(memory) = &stats.memory {
            summary["memory"] = memory_json(memory);
        }
        if let Some(swap) = &stats.swap {
            summary["swap"] = json!({
                "time": time(Timestamp(swap.timestamp)),
                "swapAvailableBytes": value(swap.swap_available_bytes.as_ref()),
                "swapUsageBytes": value(swap.swap_usage_bytes.as_ref()),
            });
        }
        if let Some(io) = &stats.io {
            summary["io"] = io_json(io);
        }
        if let Some(layer) = &stats.writable_layer {
            let bytes = value(layer.used_bytes.as_ref()).unwrap_or_default();
            let mut rootfs = sized(&self.layers, bytes, value(layer.inodes_used.as_ref()));
            rootfs["time"] = json!(time(Timestamp(layer.timestamp)));
            summary["rootfs"] = rootfs;
        }
        let key = (pod.uid.clone(), name.to_owned());
        if let Some((bytes, files)) = self.disks.logs.get(&key) {
            summary["logs"] = sized(&self.disks.log, *bytes, Some(*files));
        }
        summary
    }

    fn node(&mut self, shared: &Shared, images: Option<Value>, containers: Option<Value>) -> Value {
        let at = time(now());
        let field = |name: &str| self.disks.memory.get(name).copied();
        let or_none = |name: &str| field(name).unwrap_or_default();
        let total = or_none("MemTotal");
        let available = or_none("MemFree") + or_none("Inactive(file)");
        let (faults, major) = page_faults();
        let busy = node_cpu_nanos();
        let rate = busy.and_then(|busy| {
            self.keys.insert("node".to_owned());
            self.rates.of("node", boot_time()?, now().0, busy)
        });
        let disks = self.disks;
        let parts = disks.system.iter();
        let system: Vec<Value> = parts.map(|(name, part)| self.part(name, part)).collect();
        json!({
            "nodeName": shared.options().node_name,
            "systemContainers": system,
            "startTime": boot_time().map(|it| time(Timestamp(it))),
            "cpu": {
                "time": at, "usageNanoCores": rate, "usageCoreNanoSeconds": busy,
                "psi": pressure("cpu"),
            },
            "memory": {
                "time": at,
                "availableBytes": available,
                "usageBytes": total.saturating_sub(or_none("MemFree")),
                "workingSetBytes": total.saturating_sub(available),
                "rssBytes": field("AnonPages"),
                "pageFaults": faults,
                "majorPageFaults": major,
                "psi": pressure("memory"),
            },
            "io": pressure("io").map(|psi| json!({"time": at, "psi": psi})),
            "network": network(),
            "fs": self.disks.node,
            "runtime": {"imageFs": images, "containerFs": containers},
            "rlimit": rlimit(),
            "swap": {
                "time": at,
                "swapAvailableBytes": field("SwapFree"),
                "swapUsageBytes": or_none("SwapTotal").saturating_sub(or_none("SwapFree")),
            },
        })
    }

    fn part(&mut self, name: &str, part: &Part) -> Value {
        let at = now();
        let began = part.started.unwrap_or(at.0);
        let key = format!("system/{name}");
        let rate = part
            .cpu
            .and_then(|cpu| self.rates.of(&key, began, at.0, cpu));
        self.keys.insert(key);
        json!({
            "name": name,
            "startTime": part.started.map(|it| time(Timestamp(it))),
            "cpu": {
                "time": time(at),
                "usageNanoCores": rate,
                "usageCoreNanoSeconds": part.cpu,
            },
            "memory": {
                "time": time(at),
                "usageBytes": part.memory.usage,
                "workingSetBytes": part.memory.working_set,
                "rssBytes": part.memory.rss,
                "pageFaults": part.memory.page_faults,
                "majorPageFaults": part.memory.major_page_faults,
            },
        })
    }

    fn cpu(&mut self, key: &str, begin: i64, cpu: &v1::CpuUsage) -> Value {
        let total = value(cpu.usage_core_nano_seconds.as_ref());
        let own = value(cpu.usage_nano_cores.as_ref());
        self.keys.insert(key.to_owned());
        let rate = own.or_else(|| self.rates.of(key, begin, cpu.timestamp, total?));
        json!({
            "time": time(Timestamp(cpu.timestamp)),
            "usageNanoCores": rate,
            "usageCoreNanoSeconds": total,
            "psi": cpu.psi.as_ref().map(psi_json),
        })
    }
}

/// Describes a file system with the bytes and files that something uses on it.
fn sized(filesystem: &Value, bytes: u64, files: Option<u64>) -> Value {
    let mut found = match filesystem {
        Value::Object(_) => filesystem.clone(),
        _ => json!({"time": time(now())}),
    };
    found["usedBytes"] = json!(bytes);
    found["inodesUsed"] = json!(files);
    found
}

fn network_json(network: &v1::NetworkUsage) -> Value {
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
    all
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
        "psi": memory.psi.as_ref().map(psi_json),
    })
}

fn io_json(io: &v1::IoUsage) -> Value {
    json!({
        "time": time(Timestamp(io.timestamp)),
        "psi": io.psi.as_ref().map(psi_json),
    })
}

fn psi_json(psi: &v1::PsiStats) -> Value {
    let data = |it: Option<&v1::PsiData>| {
        it.map(|it| {
            json!({"total": it.total, "avg10": it.avg10, "avg60": it.avg60, "avg300": it.avg300})
        })
    };
    json!({"full": data(psi.full.as_ref()), "some": data(psi.some.as_ref())})
}

/// Removes unknown values.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, it| !it.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
