//! Statistics from inside a sandbox whose processes the host cannot see, read from the pod's monitor process.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use orlop_cgroup::{CpuStats, MemoryStats, PidsStats, Stats};

use crate::node::runtimes::Runtimes;
use crate::record::pod::Pod;

/// Time limit for the monitor's answer.
pub const LIMIT: Duration = Duration::from_secs(2);
const LONGEST_ANSWER: u64 = 64 << 10;
/// Length of the prefix of the pod's ID in the path of its sockets (`crates/shims/shim/src/state_dir.rs`).
const SHORT: usize = 24;

/// Reads the usage of a container, or of the pod if `id` is the pod's. Blocks.
pub fn of(runtimes: &Runtimes, pod: &Pod, id: &str) -> Option<Stats> {
    let answer = ask(runtimes, pod, &format!("?figures\n{id}\n"), LIMIT)?;
    understood(&answer)
}

/// Sends a question to the pod's monitor (`crates/shims/shim/src/question.rs`). Returns `None` for pods whose processes
/// run on the host. Blocks.
pub fn ask(runtimes: &Runtimes, pod: &Pod, question: &str, limit: Duration) -> Option<String> {
    let handler = runtimes.of(pod).ok()?;
    if !handler.settings.is_shim() {
        return None;
    }
    let id = pod.id.as_str();
    let sockets = handler.runtime.root.join("sockets");
    let place = sockets.join(id.get(..SHORT).unwrap_or(id));
    let mut socket = UnixStream::connect(place.join("guard")).ok()?;
    socket.set_read_timeout(Some(limit)).ok()?;
    socket.set_write_timeout(Some(limit)).ok()?;
    socket.write_all(question.as_bytes()).ok()?;
    let answer = orlop_fs::read_start(socket, LONGEST_ANSWER).ok()?;
    String::from_utf8(answer).ok()
}

/// Parses the numbers in the order of `crates/shims/shim/src/figures.rs`.
fn understood(answer: &str) -> Option<Stats> {
    let mut numbers = answer.split_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let cpu = CpuStats {
        usage_ns: next()?,
        ..CpuStats::default()
    };
    let usage = next()?;
    let inactive_file = next()?;
    let memory = MemoryStats {
        usage,
        inactive_file,
        working_set: usage.saturating_sub(inactive_file),
        rss: next()?,
        page_faults: next()?,
        major_page_faults: next()?,
        ..MemoryStats::default()
    };
    let pids = PidsStats {
        current: next()?,
        limit: None,
    };
    Some(Stats {
        cpu: Some(cpu),
        memory: Some(memory),
        pids: Some(pids),
        ..Stats::default()
    })
}

#[cfg(test)]
mod tests {
    use super::understood;

    #[test]
    fn numbers_are_read_in_their_order() {
        let stats = understood("5000 4096 1024 2048 7 1 3\n").unwrap();
        assert_eq!(stats.cpu.unwrap().usage_ns, 5000);
        let memory = stats.memory.unwrap();
        assert_eq!((memory.usage, memory.working_set), (4096, 3072));
        assert_eq!((memory.rss, memory.major_page_faults), (2048, 1));
        assert_eq!(stats.pids.unwrap().current, 3);
        for garbled in ["", "1 2 3", "1 2 3 4 5 6 x"] {
            assert!(understood(garbled).is_none(), "{garbled:?}");
        }
    }
}
