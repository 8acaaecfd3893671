//! `/metrics`: metrics of the manager and of the agent.

use std::fmt::Write as _;
use std::fs;

use orlop_kuberuntime::manager::{PodView, Stage};
use rustix::time::{ClockId, clock_gettime};

use crate::Weight;
use crate::shared::Shared;

/// Returns the kubelet's metrics, and those of the process.
pub(super) fn own(shared: &Shared) -> String {
    let mut text = shared.manager().metrics();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    // The Prometheus text format has no end marker.
    if let Some(bare) = text.strip_suffix("# EOF\n") {
        text.truncate(bare.len());
    }
    let remarks = shared.remarks();
    let errors = remarks
        .iter()
        .filter(|it| it.weight == Weight::Error)
        .count();
    gauge(
        &mut text,
        "orlop_node_manifest_errors",
        "Number of manifest objects with errors",
        errors as f64,
    );
    gauge(
        &mut text,
        "orlop_node_manifest_warnings",
        "Number of warnings about manifest fields",
        (remarks.len() - errors) as f64,
    );
    kubelet(&mut text, shared);
    let status = orlop_fs::read_kernel_text("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    if let Some(kib) = field("VmRSS:") {
        let bytes = (kib << 10) as f64;
        gauge(
            &mut text,
            "process_resident_memory_bytes",
            "Resident memory size in bytes",
            bytes,
        );
    }
    if let Some(threads) = field("Threads:") {
        gauge(&mut text, "process_threads", "Threads", threads as f64);
    }
    if let Some(kib) = field("VmSize:") {
        let bytes = (kib << 10) as f64;
        gauge(
            &mut text,
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes",
            bytes,
        );
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of the entries is the open directory itself.
        let count = open.count().saturating_sub(1);
        gauge(
            &mut text,
            "process_open_fds",
            "Number of open file descriptors",
            count as f64,
        );
    }
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let name = "process_cpu_seconds_total";
    let _ = writeln!(
        text,
        "# HELP {name} Total user and system CPU time spent in seconds\n# TYPE {name} \
         counter\n{name} {seconds}"
    );
    let started = shared.started().0 as f64 / 1e9;
    let name = "process_start_time_seconds";
    let _ = writeln!(
        text,
        "# HELP {name} Start time of the process since unix epoch in seconds\n# TYPE {name} \
         gauge\n{name} {started}"
    );
    text
}

/// Adds the kubelet's metrics about itself and the pods it should run.
fn kubelet(text: &mut String, shared: &Shared) {
    let name = &shared.options().node_name;
    let _ = writeln!(
        text,
        "# HELP kubelet_node_name Name of the node\n# TYPE kubelet_node_name \
         gauge\nkubelet_node_name{{node=\"{name}\"}} 1"
    );
    let manager = shared.manager();
    let version = f64::from(manager.cgroup_version());
    gauge(
        text,
        "kubelet_cgroup_version",
        "Version of the cgroup hierarchy",
        version,
    );
    let pods = manager.pods();
    let over = |pod: &PodView| pod.stage == Stage::Terminated;
    let active = pods.iter().filter(|pod| !over(pod)).count();
    for (metric, help, count) in [
        (
            "desired_pods",
            "Number of pods that the node is configured to run",
            pods.len(),
        ),
        (
            "active_pods",
            "Number of pods that have not terminated",
            active,
        ),
    ] {
        let _ = writeln!(
            text,
            "# HELP kubelet_{metric} {help}\n# TYPE kubelet_{metric} gauge\n\
             kubelet_{metric}{{static=\"true\"}} {count}"
        );
    }
}

fn gauge(text: &mut String, name: &str, help: &str, value: f64) {
    let _ = writeln!(
        text,
        "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"
    );
}
