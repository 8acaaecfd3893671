//! Processor time.

use std::fs;
use std::time::Duration;

/// Processor time of one process so far.
pub(crate) fn of_process(pid: u32) -> Option<Duration> {
    let [user, system, ..] = times(pid)?;
    Some(user + system)
}

/// utime, stime, cutime and cstime of proc(5): the last two are those of children that have ended
/// and were waited for, and of theirs.
pub(crate) fn times(pid: u32) -> Option<[Duration; 4]> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    // The 14th field and on, counted from the third, in ticks of 10 ms.
    let mut ticks = rest.split(' ').skip(11).map(str::parse::<u64>);
    let mut next = || Some(Duration::from_millis(10 * ticks.next()?.ok()?));
    Some([next()?, next()?, next()?, next()?])
}
