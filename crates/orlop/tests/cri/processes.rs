//! Processes of this machine, by what stands in their command lines.

use std::time::Duration;

pub(crate) use orlop_testkit::process::processes;
use rustix::process::{Pid, Signal, kill_process};

/// How many processes have all these words in their command line, once that has settled: a child
/// that is about to execute something else has its parent's for a moment.
pub(crate) async fn count(words: &[&str], wanted: usize) -> usize {
    for _ in 0..100 {
        if processes(words).len() == wanted {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    processes(words).len()
}

pub(crate) fn kill(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a process");
    kill_process(pid, Signal::KILL).expect("kill");
}
