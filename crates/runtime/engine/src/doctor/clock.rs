//! Whether the node knows what time it is.

use super::Finding;
use crate::clock;

const AREA: &str = "clock";

/// 2025-01-01: no node of today runs before it.
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

/// `STA_UNSYNC` of adjtimex(2), as the clock's keepers clear it.
#[allow(unsafe_code)]
fn unsynchronised() -> bool {
    // SAFETY: all zeroes is a valid timex, which asks for nothing to be changed.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a timex of our own; with no modes it is only written to.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    state == libc::TIME_ERROR || timex.status & libc::STA_UNSYNC != 0
}
