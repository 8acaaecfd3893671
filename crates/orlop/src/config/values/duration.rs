//! Lengths of time, written as `10s`, `1m30s` or `500ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::text::text_value;

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval(Duration);

impl Interval {
    pub(crate) const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    pub(crate) const fn get(self) -> Duration {
        self.0
    }

    /// The length, or nothing where zero means "never".
    pub(crate) fn nonzero(self) -> Option<Duration> {
        (!self.0.is_zero()).then_some(self.0)
    }
}

const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Longer than any sensible setting, and far from overflowing an `Instant`.
const LONGEST: u64 = 10 * 365 * 24 * 3_600_000;

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a duration such as 10s, 1m30s or 500ms");
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let mut rest = text;
        let mut total = 0_u64;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let (number, tail) = rest.split_at(digits);
            let unit_end = tail
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            let factor = UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .ok_or_else(wrong)?
                .1;
            let number: u64 = number.parse().map_err(|_| wrong())?;
            total = number
                .checked_mul(factor)
                .and_then(|length| length.checked_add(total))
                .filter(|total| *total <= LONGEST)
                .ok_or_else(|| format!("{text:?} is too long, ten years are the most"))?;
            rest = tail;
        }
        if text.is_empty() {
            return Err(wrong());
        }
        Ok(Self(Duration::from_millis(total)))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_millis() as u64;
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, factor) in UNITS {
            let count = rest / factor;
            rest %= factor;
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
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
