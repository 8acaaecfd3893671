//! Blocking work in daemons must run on the blocking pool, which always keeps a thread: tokio panics if it cannot start
//! one.

use std::collections::BTreeSet;

use crate::files::{sources, top};
use crate::words::Source;

/// Code that runs in daemons, as paths below `crates`. Short-lived commands are not included.
const DAEMONS: &[&str] = &[
    "node/agent/src",
    "image/credentials/src",
    "dockershim/src",
    "base/listen/src",
    "runtime/engine/src",
    "image/store/src",
    "node/kuberuntime/src",
    "runtime/launch/src",
    "network/src",
    "runtime/nri/src",
    "orlop/src/backend",
    "orlop/src/memory.rs",
    "orlop/src/metrics",
    "orlop/src/otlp",
    "orlop/src/rpc",
    "orlop/src/serve",
    "base/pool/src",
    "shims/sandbox-api/src",
    "cri/server/src",
    "tools/web/src",
];

/// Functions that use a thread of tokio's blocking pool, and their replacements.
const INSTEAD: &[(&str, &str)] = &[
    ("spawn_blocking", "orlop_pool::blocking"),
    ("tokio::fs", "orlop_pool::blocking"),
    ("lookup_host", "a place of orlop_pool"),
];

#[test]
fn nothing_in_a_daemon_blocks_on_a_thread_of_the_reactor_s() {
    let crates = top().join("crates");
    let mut wrong = BTreeSet::new();
    let mut read = 0;
    for place in DAEMONS {
        for file in sources(&crates.join(place)) {
            read += 1;
            let source = Source::read(&std::fs::read_to_string(&file).expect("read a source"));
            let imported = source.imports.into_iter().map(|import| import.path);
            for path in imported.chain(source.paths) {
                let path = path.join("::");
                for (word, instead) in INSTEAD {
                    if format!("::{path}::").contains(&format!("::{word}::")) {
                        wrong.insert(format!("{}: {path}: use {instead}", file.display()));
                    }
                }
            }
        }
    }
    assert!(read > 500, "{read} sources");
    assert_eq!(wrong, BTreeSet::new());
}

/// Functions that block a thread on a task. In a shared pool, the task may need that same thread.
const WAITING: &[&str] = &[
    ".block_on(",
    ".blocking_lock",
    ".blocking_read(",
    ".blocking_recv(",
    ".blocking_send(",
    ".blocking_write(",
];

/// Code that may block on a task, as it has its own threads.
const OWN_THREADS: &[&str] = &[
    "runtime/engine/src/rpc_containers/list_changes.rs",
    "runtime/engine/src/rpc_images/export_images.rs",
    "runtime/engine/src/rpc_images/import_images.rs",
    "node/kuberuntime/src/logs/read.rs",
    // Threads for calls of plugins.
    "network/src/networks/gates.rs",
    "orlop/src/memory.rs",
    "orlop/src/serve/start.rs",
];

#[test]
fn no_thread_that_all_share_waits_for_a_task() {
    let crates = top().join("crates");
    let mut found = BTreeSet::new();
    for place in DAEMONS {
        for file in sources(&crates.join(place)) {
            let text = std::fs::read_to_string(&file).expect("read a source");
            if WAITING.iter().any(|word| text.contains(word)) {
                let file = file.strip_prefix(&crates).expect("below it");
                found.insert(file.display().to_string());
            }
        }
    }
    let own: BTreeSet<String> = OWN_THREADS.iter().map(|&it| it.to_owned()).collect();
    assert_eq!(found, own);
}
