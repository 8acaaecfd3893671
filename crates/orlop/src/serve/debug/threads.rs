//! The threads of the daemon, as the kernel reports them.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

/// Limit of threads to examine.
const MOST: usize = 4096;

/// Groups threads by name, state and kernel function. Blocks on files.
pub(super) fn threads() -> Value {
    let mut alike: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    for task in tasks.flatten().take(MOST) {
        let path = task.path();
        let read = |name: &str| {
            let text = orlop_fs::read_kernel_text(path.join(name)).unwrap_or_default();
            text.trim().to_owned()
        };
        let stat = read("stat");
        let state = stat
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest.trim_start());
        let state = state.get(..1).unwrap_or_default().to_owned();
        *alike
            .entry((read("comm"), state, read("wchan")))
            .or_default() += 1;
    }
    let told = alike.into_iter().map(|((name, state, waits_in), count)| {
        json!({ "name": name, "state": state, "waits_in": waits_in, "count": count })
    });
    told.collect()
}
