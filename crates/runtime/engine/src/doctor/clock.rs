//! Check of the system clock.

use super::Finding;
use crate::clock;

const AREA: &str = "clock";

/// 2025-01-01: earlier times are wrong.
const EARLIEST: i64 = 1_735_689_600_000_000_000;

pub(super) fn examine() -> Vec<Finding> {
    if clock::now() < EARLIEST {
        return vec![Finding::problem(
            AREA,
            "the system clock is years behind",
            "set the clock; registry certificates and the age of pods depend on it",
        )];
    }
    if unsynchronised() {
        return vec![Finding::warning(
            AREA,
            "the system clock is not synchronized",
            "run an NTP client, such as chrony or systemd-timesyncd",
        )];
    }
    vec![Finding::ok(AREA, "the system clock is synchronized")]
}

/// Whether the clock is unsynchronized: `STA_UNSYNC` of adjtimex(2), which NTP clients clear.
#[allow(unsafe_code)]
fn unsynchronised() -> bool {
    // SAFETY: all zeroes is a valid timex, which requests no change.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a local timex; with no modes set, the call only writes to it.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    state == libc::TIME_ERROR || timex.status & libc::STA_UNSYNC != 0
}
