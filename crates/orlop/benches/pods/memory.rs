//! Memory.

use std::fs;

use orlop_testkit::Node;

use crate::processes;

/// Proportional set size, of which shared pages count in parts, of a runtime's processes in kB.
pub(crate) fn of_runtime(node: &Node) -> f64 {
    let pids = processes::of_runtime(node).into_iter();
    pids.filter_map(proportional_kb).sum::<u64>() as f64
}

fn proportional_kb(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find(|line| line.starts_with("Pss:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
