//! The threads of the daemon.

use std::io;
use std::thread::{self, available_parallelism};
use std::time::Duration;

use anyhow::Context;
use orlop_cli::reactor::built;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

/// Work that blocks may end by itself for so long after all else has ended.
const LAST_WORK: Duration = Duration::from_secs(1);

/// Says where the limits are that may be too low.
const WITHOUT_THREADS: &str = "cannot start the threads that serve requests; check the limits of \
                               threads (TasksMax, pids.max, ulimit -u) and of open files \
                               (LimitNOFILE, ulimit -n)";

/// The runtime of the daemon. `workers` of zero means as many as suit the
/// machine: a CRI daemon waits far more than it computes.
pub(crate) fn serving(workers: u16) -> anyhow::Result<Runtime> {
    let workers = match workers {
        0 => available_parallelism().map_or(2, usize::from).clamp(2, 4),
        chosen => chosen.into(),
    };
    // Those and one for what blocks, or nothing would ever be done.
    try_threads(workers + 1).context(WITHOUT_THREADS)?;
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).thread_name("orlop");
    let runtime = built(&mut builder).context(WITHOUT_THREADS)?;
    // It stays for what blocks, where no other can be started any more.
    orlop_pool::ready().context(WITHOUT_THREADS)?;
    Ok(runtime)
}

/// Ends all that is at work.
pub(crate) fn end(runtime: Runtime) {
    runtime.shutdown_timeout(LAST_WORK);
    orlop_pool::finish(LAST_WORK);
}

/// Whether there may be so many threads more.
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
