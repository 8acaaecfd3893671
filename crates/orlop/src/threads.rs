//! The threads of the daemon.

use std::io;
use std::thread::{self, available_parallelism};
use std::time::Duration;

use anyhow::Context;
use orlop_cli::reactor::built;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

/// Time that blocking work may take to finish after everything else has ended.
const LAST_WORK: Duration = Duration::from_secs(1);

/// Error message that names the limits that may be too low.
const WITHOUT_THREADS: &str = "cannot start the threads that serve requests; check the limits of \
                               threads (TasksMax, pids.max, ulimit -u) and of open files \
                               (LimitNOFILE, ulimit -n)";

/// Creates the runtime of the daemon. `workers` of zero chooses a number for the machine: a CRI daemon waits far more
/// than it computes.
pub(crate) fn serving(workers: u16) -> anyhow::Result<Runtime> {
    let workers = match workers {
        0 => available_parallelism().map_or(2, usize::from).clamp(2, 4),
        chosen => chosen.into(),
    };
    // The workers and one thread for blocking work are the minimum.
    try_threads(workers + 1).context(WITHOUT_THREADS)?;
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).thread_name("orlop");
    let runtime = built(&mut builder).context(WITHOUT_THREADS)?;
    // This thread stays for blocking work if no other can be started.
    orlop_pool::ready().context(WITHOUT_THREADS)?;
    Ok(runtime)
}

/// Ends all running work.
pub(crate) fn end(runtime: Runtime) {
    runtime.shutdown_timeout(LAST_WORK);
    orlop_pool::finish(LAST_WORK);
}

/// Checks whether this many more threads can be started.
fn try_threads(count: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    let closed = gate.lock();
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, || drop(gate.lock()));
        let started = (0..count).map(start).collect::<io::Result<Vec<_>>>();
        drop(closed);
        started.map(drop)
    })
}
