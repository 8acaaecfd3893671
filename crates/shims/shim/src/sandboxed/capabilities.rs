//! Capabilities that a runtime does not know.
//!
//! A privileged container gets all capabilities of this kernel. gVisor rejects a container with an unknown capability;
//! its own kernel has no use for such a capability.

use serde_json::Value;

use super::runtime::Runtime;

/// The capabilities of Linux 5.8 and 5.9. A release that knows them can list the capabilities that it supports.
const RECENT: [&str; 3] = ["CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE"];

/// Removes a process's capabilities that the runtime does not know; returns whether there were any.
pub(super) fn keep_known(runtime: &Runtime, process: &mut Value) -> bool {
    let sets = process.get_mut("capabilities");
    let sets = sets.and_then(Value::as_object_mut).into_iter();
    let mut sets: Vec<_> = sets
        .flat_map(|sets| sets.values_mut().filter_map(Value::as_array_mut))
        .collect();
    let is_recent = |name: &Value| RECENT.iter().any(|recent| name == recent);
    if !sets.iter().any(|set| set.iter().any(is_recent)) {
        return false;
    }
    let told = runtime.features().unwrap_or_default();
    let known = told["linux"]["capabilities"].as_array();
    let mut left_out = false;
    for set in &mut sets {
        let all = set.len();
        set.retain(|name| known.map_or(!is_recent(name), |known| known.contains(name)));
        left_out |= set.len() < all;
    }
    left_out
}
