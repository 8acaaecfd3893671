//! What the processes of a runtime use: the daemon, keepers or shims, but not the workload.

use std::fs;
use std::time::Duration;

use orlop_testkit::Node;
use orlop_testkit::leaks::{self, Leak};

use crate::cpu;
use crate::crowd::WORKLOAD;

/// Memory and processor time of a runtime's processes.
pub(crate) struct Usage {
    /// Proportional set size: shared pages count in parts.
    pub(crate) proportional_kb: u64,
    /// Processor time so far.
    pub(crate) cpu: Duration,
}

pub(crate) fn of_runtime(node: &Node) -> Usage {
    let mut usage = Usage {
        proportional_kb: 0,
        cpu: Duration::ZERO,
    };
    for leak in leaks::processes(node.id(), &[]) {
        let Leak::Process(pid, command) = leak else {
            continue;
        };
        if command.trim() == WORKLOAD {
            continue;
        }
        usage.proportional_kb += proportional_kb(pid).unwrap_or(0);
        usage.cpu += cpu::of_process(pid).unwrap_or_default();
    }
    usage
}

fn proportional_kb(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find(|line| line.starts_with("Pss:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
