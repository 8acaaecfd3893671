//! Parses a duration as Go does.

use std::time::Duration;

/// Go's longest duration: 292 years.
const LONGEST: u128 = i64::MAX as u128;

/// Reasons why a text is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It has the wrong format, or is negative.
    #[error("it is not a duration such as 20s, 1m30s or 500ms")]
    Format,
    /// It is longer than Go's longest duration.
    #[error("it is too long: the maximum is 292 years")]
    TooLong,
}

/// Parses `1m30s`, `500ms`, `1.5h` or `0`. Parts finer than a nanosecond are ignored.
pub fn parse(text: &str) -> Result<Duration, Wrong> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(Wrong::Format);
    }
    let mut total = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(Wrong::Format);
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, tail) = after.split_at(end.unwrap_or(after.len()));
        let unit = nanoseconds(unit).ok_or(Wrong::Format)?;
        let whole = if whole.is_empty() { "0" } else { whole };
        // The product and the sum cannot overflow.
        let whole: u64 = whole.parse().map_err(|_| Wrong::TooLong)?;
        total += u128::from(whole) * unit + part(fraction, unit);
        if total > LONGEST {
            return Err(Wrong::TooLong);
        }
        rest = tail;
    }
    Ok(Duration::from_nanos(total as u64))
}

/// Parses user input: seconds, or a duration in Go's format. Returns an error message.
pub fn typed(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; use a value such as 20s, 1m30s or 500ms");
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| wrong());
    }
    parse(text).map_err(|_| wrong())
}

fn nanoseconds(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // The micro sign, and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Returns the fraction in nanoseconds. Digits after the 18th are ignored.
fn part(fraction: &str, unit: u128) -> u128 {
    let (sum, scale) = fraction
        .bytes()
        .take(18)
        .fold((0, 1), |(sum, scale), digit| {
            (sum * 10 + u128::from(digit - b'0'), scale * 10)
        });
    sum * unit / scale
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("+5s", 5_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1h0m0s", 3_600_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s.5s", 1_000_000_000),
            ("1.s", 1_000_000_000),
            ("250ms", 250_000_000),
            ("7us", 7_000),
            ("7\u{b5}s7\u{3bc}s", 14_000),
            ("0.0000000019s", 1),
            ("0.3333333333333333333333333s", 333_333_333),
            ("9223372036854775807ns", i64::MAX as u64),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in [
            "", "+", "5", "s", ".", ".s", "5 s", "-5s", "1x", "1h5", "1y",
        ] {
            assert_eq!(parse(text), Err(Wrong::Format), "{text}");
        }
        let long = ["9223372036854775808ns", "2600000h", "99999999999999999999s"];
        for text in long {
            assert_eq!(parse(text), Err(Wrong::TooLong), "{text}");
        }
    }
}
