//! Processor time.

use std::fs;
use std::time::Duration;

use orlop_testkit::Node;

use crate::processes;

/// utime and stime, the 14th and 15th of proc(5), counted from the third.
const OWN: [usize; 2] = [11, 12];

/// cutime and cstime: those of children that have ended and were waited for, and of theirs.
const OF_CHILDREN: [usize; 2] = [13, 14];

/// Processor time of one process so far.
pub(crate) fn of_process(pid: u32) -> Option<Duration> {
    sum(pid, &OWN)
}

/// That of all processes of a runtime's.
pub(crate) fn of_runtime(node: &Node) -> Duration {
    let pids = processes::of_runtime(node).into_iter();
    pids.filter_map(of_process).sum()
}

/// The same with all that they have called and waited for: OCI runtimes and commands in containers.
pub(crate) fn of_runtime_and_children(node: &Node) -> Duration {
    let pids = processes::of_runtime(node).into_iter();
    let of_children = |pid| sum(pid, &OF_CHILDREN);
    pids.filter_map(|pid| Some(of_process(pid)? + of_children(pid)?))
        .sum()
}

fn sum(pid: u32, fields: &[usize]) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let all: Vec<&str> = rest.split(' ').collect();
    // In ticks of 10 ms.
    let ticks = fields.iter().map(|field| all.get(*field)?.parse::<u64>().ok());
    let ticks = ticks.sum::<Option<u64>>()?;
    Some(Duration::from_millis(ticks * 10))
}
