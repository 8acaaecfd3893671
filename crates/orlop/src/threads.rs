//! The threads of the daemon.

use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

/// Threads for the node's own blocking work, besides those that serve requests. More would only
/// wait for the same disk. Work that waits for strangers has threads elsewhere (`orlop_pool`).
const BLOCKING_THREADS: usize = 64;

/// A thread without work gives its stack back after so long.
const IDLE: Duration = Duration::from_secs(2);

/// The runtime of the daemon. `workers` of zero means as many as suit the
/// machine: a CRI daemon waits far more than it computes.
pub(crate) fn serving(workers: u16) -> anyhow::Result<Runtime> {
    let workers = match workers {
        0 => available_parallelism().map_or(2, usize::from).clamp(2, 4),
        chosen => chosen.into(),
    };
    Builder::new_multi_thread()
        .worker_threads(workers)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(IDLE)
        .thread_name("orlop")
        .enable_all()
        .build()
        .context("cannot start the threads that serve requests")
}

/// The runtime of a client command, which does one thing at a time.
pub(crate) fn client() -> anyhow::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the input/output of the command")
}
