//! Lengths of time as Go writes them, and bytes in hexadecimal.

use std::time::Duration;

/// Reads `1m30s`, `500ms`, `1.5h` or `0`; `None` for anything else, and for what is negative.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = 0.0;
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        total += number
            * match &rest[..letters] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" | "μs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    Duration::try_from_secs_f64(total).ok()
}

/// Writes a length of time as Go does: `1m30s`, `1h0m0s`, `500ms`.
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let trimmed = |value: f64, unit: &str| {
        let text = format!("{value:.9}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        format!("{text}{unit}")
    };
    if nanos < 1_000_000_000 {
        return trimmed(nanos as f64 / 1e6, "ms");
    }
    let whole = duration.as_secs();
    let (hours, minutes) = (whole / 3600, whole / 60 % 60);
    let seconds = (whole % 60) as f64 + f64::from(duration.subsec_nanos()) / 1e9;
    let seconds = trimmed(seconds, "s");
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes}m{seconds}"),
        _ => format!("{hours}h{minutes}m{seconds}"),
    }
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_read_and_write_as_in_go() {
        for (text, millis, written) in [
            ("20s", 20_000, "20s"),
            ("1m30s", 90_000, "1m30s"),
            ("1h", 3_600_000, "1h0m0s"),
            ("1.5s", 1500, "1.5s"),
            ("500ms", 500, "500ms"),
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
        ] {
            let read = parse_duration(text).unwrap();
            assert_eq!(read.as_millis(), millis, "{text}");
            assert_eq!(format_duration(read), written);
        }
        for wrong in ["", "5", "-5s", "s", "1x", "1h5", "."] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }
}
