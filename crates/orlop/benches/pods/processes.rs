//! Which processes are a runtime's own: the daemon, keepers or shims, but not the workload.

use orlop_testkit::Node;
use orlop_testkit::leaks::{self, Leak};

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
