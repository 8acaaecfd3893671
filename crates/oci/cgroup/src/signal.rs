//! Signals by number.
#![allow(unsafe_code)]

use rustix::process::Signal;

/// The kernel's real-time signals, without the first two, which C libraries reserve.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// Returns the signal with this number, as used to stop containers; `None` if there is no such signal.
pub(crate) fn by_number(number: u32) -> Option<Signal> {
    let number = i32::try_from(number).ok()?;
    if !REAL_TIME.contains(&number) {
        return Signal::from_named_raw(number);
    }
    // SAFETY: the C library does not reserve this number.
    Some(unsafe { Signal::from_raw_unchecked(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_by_their_numbers() {
        for number in (1..=31).chain(34..=64) {
            let signal = by_number(number).unwrap();
            assert_eq!(signal.as_raw().unsigned_abs(), number);
        }
        for number in [0, 32, 33, 65, u32::MAX] {
            assert_eq!(by_number(number), None, "{number}");
        }
    }
}
