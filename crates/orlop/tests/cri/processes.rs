//! Processes of this machine, by what stands in their command lines.

use std::fs;
use std::time::Duration;

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

/// The processes whose command line has all these words.
pub(crate) fn processes(words: &[&str]) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut found: Vec<i32> = pids
        .filter(|pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            words.iter().all(|word| line.contains(word))
        })
        .collect();
    found.sort_unstable();
    found
}

pub(crate) fn kill(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a process");
    kill_process(pid, Signal::KILL).expect("kill");
}
