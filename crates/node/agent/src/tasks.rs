//! Processes and threads of the machine.

/// Returns their limit.
pub(super) fn most() -> Option<u64> {
    let most = number("/proc/sys/kernel/pid_max")?;
    Some(number("/proc/sys/kernel/threads-max").map_or(most, |threads| threads.min(most)))
}

/// Returns their current number.
pub(super) fn count() -> Option<u64> {
    let load = orlop_fs::read_kernel_text("/proc/loadavg").ok()?;
    let (_, tasks) = load.split_ascii_whitespace().nth(3)?.split_once('/')?;
    tasks.parse().ok()
}

fn number(path: &str) -> Option<u64> {
    let text = orlop_fs::read_kernel_text(path).ok()?;
    text.trim().parse().ok()
}
