//! Capabilities for which a runtime has no name.
//!
//! A privileged container is given all that this kernel has. gVisor refuses a container with one that it does
//! not know; its own kernel has nothing that such a one would be for.

use serde_json::Value;

use super::runtime::Runtime;

/// Those of Linux 5.8 and 5.9. Releases that know them can be asked what they know.
const RECENT: [&str; 3] = ["CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE"];

/// Leaves those out of a process that the runtime does not know; whether there were any.
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
