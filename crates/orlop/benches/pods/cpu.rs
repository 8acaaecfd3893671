//! Processor time.

use std::fs;
use std::time::Duration;

/// Processor time of one process so far.
pub(crate) fn of_process(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    // utime and stime, the 14th and 15th of proc(5), in ticks of 10 ms.
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}
