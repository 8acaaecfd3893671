//! Signals by their numbers.
#![allow(unsafe_code)]

use rustix::process::Signal;

/// The kernel's, less the two at their beginning that C libraries keep for themselves.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// The signal of a number, as containers are stopped by; none if that is no signal's.
pub(crate) fn by_number(number: u32) -> Option<Signal> {
    let number = i32::try_from(number).ok()?;
    if !REAL_TIME.contains(&number) {
        return Signal::from_named_raw(number);
    }
    // SAFETY: the number is none that the C library keeps for itself.
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
