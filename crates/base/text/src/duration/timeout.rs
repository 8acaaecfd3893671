//! Timeouts that tests may shorten.

use std::fmt;
use std::time::Duration;

/// A timeout that is part of the product, not of its configuration.
///
/// In a debug build the environment variable `ORLOP_DEBUG_TIMEOUT_DIVISOR` divides every timeout, so that a test of
/// something that hangs need not wait as long as a node does. A release build ignores the variable.
#[derive(Clone, Copy)]
pub struct Timeout(Duration);

impl Timeout {
    /// Returns a timeout in seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns the timeout, divided in debug builds.
    pub fn get(self) -> Duration {
        self.0 / divisor()
    }
}

impl fmt::Debug for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(not(debug_assertions))]
fn divisor() -> u32 {
    1
}

#[cfg(debug_assertions)]
fn divisor() -> u32 {
    use std::sync::OnceLock;

    static DIVISOR: OnceLock<u32> = OnceLock::new();
    *DIVISOR
        .get_or_init(|| divisor_of(std::env::var("ORLOP_DEBUG_TIMEOUT_DIVISOR").ok().as_deref()))
}

#[cfg(debug_assertions)]
fn divisor_of(text: Option<&str>) -> u32 {
    text.and_then(|text| text.parse().ok())
        .filter(|divisor| *divisor > 0)
        .unwrap_or(1)
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn only_a_positive_number_divides_timeouts() {
        let values = [None, Some(""), Some("0"), Some("-2"), Some("4")];
        assert_eq!(values.map(divisor_of), [1, 1, 1, 1, 4]);
    }
}
