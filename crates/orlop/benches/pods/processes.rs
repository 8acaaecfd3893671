//! Which processes are a runtime's own: the daemon, keepers or shims, but not the workload.

use std::time::Duration;

use orlop_testkit::Node;
use orlop_testkit::leaks::{self, Leak};

use crate::cpu;

/// What the containers run: told from the runtime's own processes by this.
pub(crate) const WORKLOAD: &str = "sleep 86399";

pub(crate) fn of_runtime(node: &Node) -> Vec<u32> {
    let all = leaks::processes(node.id(), &[]).into_iter();
    all.filter_map(|leak| match leak {
        Leak::Process(pid, command) if command.trim() != WORKLOAD => Some(pid),
        _ => None,
    })
    .collect()
}

/// Their processor time so far.
pub(crate) fn cpu(node: &Node) -> Duration {
    let pids = of_runtime(node).into_iter();
    pids.filter_map(cpu::of_process).sum()
}

/// The same with all that they have called and waited for: OCI runtimes and commands in containers.
pub(crate) fn cpu_with_children(node: &Node) -> Duration {
    let pids = of_runtime(node).into_iter();
    pids.filter_map(cpu::times).flatten().sum()
}
