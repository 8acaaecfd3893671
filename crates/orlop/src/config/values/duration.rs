//! Durations, written as `10s`, `1m30s` or `500ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use orlop_text::duration::Wrong;

use super::text::text_value;

/// A duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval(Duration);

impl Interval {
    pub(crate) const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    pub(crate) const fn get(self) -> Duration {
        self.0
    }

    /// Returns the duration, or `None` for zero, which means "never".
    pub(crate) fn nonzero(self) -> Option<Duration> {
        (!self.0.is_zero()).then_some(self.0)
    }
}

/// Maximum: longer than any sensible setting, and far from overflowing an `Instant`.
const LONGEST: Duration = Duration::from_hours(10 * 365 * 24);

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length = orlop_text::duration::parse(text);
        if length.is_ok_and(|it| it > LONGEST) || length == Err(Wrong::TooLong) {
            return Err(format!("{text:?} is too long; the maximum is ten years"));
        }
        length
            .map(Self)
            .map_err(|_| format!("{text:?} is not a duration such as 10s, 1m30s or 500ms"))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&orlop_text::duration::short(self.0))
    }
}

text_value!(Interval, "duration");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_same_length() {
        for (text, millis) in [
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("4h", 14_400_000),
            ("1s500ms", 1500),
            ("0s", 0),
        ] {
            let read: Interval = text.parse().unwrap();
            assert_eq!(read.get(), Duration::from_millis(millis), "{text}");
            assert_eq!(read.to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_no_length() {
        for text in [
            "",
            "10",
            "s",
            "10 s",
            "-1s",
            "1y",
            "99999999999999999999s",
            "100000000h",
        ] {
            assert!(text.parse::<Interval>().is_err(), "{text:?} was taken");
        }
    }
}
