//! A clock that both ends of a socket share.

use rustix::time::{ClockId, clock_gettime};

/// Returns the time of the monotonic clock in nanoseconds. It cannot be set and runs on while a process is stopped.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000) + now.tv_nsec as u64
}
