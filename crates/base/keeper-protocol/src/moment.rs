//! Moments that both ends of a socket know.

use rustix::time::{ClockId, clock_gettime};

/// Now, in nanoseconds of the clock that nobody sets and that goes on while a process is stopped.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000) + now.tv_nsec as u64
}
