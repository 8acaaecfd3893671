//! `/metrics`: the manager's, and the agent's own.

use std::fmt::Write as _;
use std::fs;

use rustix::time::{ClockId, clock_gettime};

use crate::agent::Weight;
use crate::agent::shared::Shared;

/// The kubelet's metrics, and those of the process.
pub(super) fn own(shared: &Shared) -> String {
    let mut text = shared.manager().metrics();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    // The text format of Prometheus has no such end.
    if let Some(bare) = text.strip_suffix("# EOF\n") {
        text.truncate(bare.len());
    }
    let mut gauge = |name: &str, help: &str, value: f64| {
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"
        );
    };
    let remarks = shared.remarks();
    let errors = remarks
        .iter()
        .filter(|it| it.weight == Weight::Error)
        .count();
    gauge(
        "orlop_node_manifest_errors",
        "Objects in manifests that cannot be used",
        errors as f64,
    );
    gauge(
        "orlop_node_manifest_warnings",
        "Doubtful fields in manifests",
        (remarks.len() - errors) as f64,
    );
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    if let Some(kib) = field("VmRSS:") {
        let bytes = (kib << 10) as f64;
        gauge("process_resident_memory_bytes", "Resident memory", bytes);
    }
    if let Some(threads) = field("Threads:") {
        gauge("process_threads", "Threads", threads as f64);
    }
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let name = "process_cpu_seconds_total";
    let _ = writeln!(
        text,
        "# HELP {name} Processor time used\n# TYPE {name} counter\n{name} {seconds}"
    );
    let started = shared.started().0 as f64 / 1e9;
    let name = "process_start_time_seconds";
    let _ = writeln!(
        text,
        "# HELP {name} When the process started\n# TYPE {name} gauge\n{name} {started}"
    );
    text
}
