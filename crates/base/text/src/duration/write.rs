//! Formats a duration as Go does, or in a short form.

use std::time::Duration;

/// Formats a duration as Go does: `1m30s`, `1h0m0s`, `500ms`.
pub fn go(length: Duration) -> String {
    let (hours, minutes, rest) = split(length);
    let seconds = if length < Duration::from_secs(1) {
        below_a_second(length)
    } else {
        decimal(rest.as_nanos(), 9, "s")
    };
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes}m{seconds}"),
        _ => format!("{hours}h{minutes}m{seconds}"),
    }
}

/// Formats a duration in whole numbers, without zero parts: `1m30s`, `1h`, `1s500ms`.
pub fn short(length: Duration) -> String {
    let (hours, minutes, rest) = split(length);
    let below = rest.subsec_nanos();
    let parts = [
        (hours, "h"),
        (minutes, "m"),
        (rest.as_secs(), "s"),
        (u64::from(below / 1_000_000), "ms"),
        (u64::from(below / 1_000 % 1_000), "us"),
        (u64::from(below % 1_000), "ns"),
    ];
    let mut text = String::new();
    for (count, unit) in parts.iter().filter(|(count, _)| *count > 0) {
        text.push_str(&count.to_string());
        text.push_str(unit);
    }
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text
    }
}

/// Splits a duration to whole hours, whole minutes, and the rest.
fn split(length: Duration) -> (u64, u64, Duration) {
    let whole = length.as_secs();
    let rest = Duration::new(whole % 60, length.subsec_nanos());
    (whole / 3600, whole / 60 % 60, rest)
}

/// Formats it in the largest unit of which there is at least one.
fn below_a_second(length: Duration) -> String {
    match length.as_nanos() {
        0 => "0s".to_owned(),
        nanos @ ..1_000 => format!("{nanos}ns"),
        nanos @ ..1_000_000 => decimal(nanos, 3, "\u{b5}s"),
        nanos => decimal(nanos, 6, "ms"),
    }
}

/// Returns a number with the decimal point before the last `places` digits.
fn decimal(number: u128, places: usize, unit: &str) -> String {
    let digits = format!("{number:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    match fraction.trim_end_matches('0') {
        "" => format!("{whole}{unit}"),
        fraction => format!("{whole}.{fraction}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn lengths_of_time_are_written_as_go_writes_them() {
        for (nanos, text, shortly) in [
            (0, "0s", "0s"),
            (1, "1ns", "1ns"),
            (1_100, "1.1\u{b5}s", "1us100ns"),
            (2_200_000, "2.2ms", "2ms200us"),
            (500_000_000, "500ms", "500ms"),
            (1_500_000_000, "1.5s", "1s500ms"),
            (20_000_000_000, "20s", "20s"),
            (90_000_000_000, "1m30s", "1m30s"),
            (245_001_000_000, "4m5.001s", "4m5s1ms"),
            (3_600_000_000_000, "1h0m0s", "1h"),
            (3_600_000_000_001, "1h0m0.000000001s", "1h1ns"),
        ] {
            let length = Duration::from_nanos(nanos);
            assert_eq!((&*go(length), &*short(length)), (text, shortly));
            assert_eq!((parse(text), parse(shortly)), (Ok(length), Ok(length)));
        }
    }
}
