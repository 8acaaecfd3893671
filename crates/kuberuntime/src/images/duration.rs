use std::time::Duration;

/// Reads a duration as Go writes it: `1h30m`, `250ms`, `0`.
pub(super) fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        total += number
            * match &rest[..end] {
                "ns" => 1e-9,
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[end..];
    }
    if text.is_empty() {
        return None;
    }
    Duration::try_from_secs_f64(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_go_writes_them() {
        let rows = [
            ("0", Some(0)),
            ("5s", Some(5000)),
            ("1h0m0s", Some(3_600_000)),
            ("1.5m", Some(90_000)),
            ("250ms", Some(250)),
            ("", None),
            ("5", None),
            ("s", None),
            ("5 s", None),
        ];
        for (text, wanted) in rows {
            let got = parse(text).map(|d| d.as_millis());
            assert_eq!(got, wanted.map(|ms: u128| ms), "{text}");
        }
    }
}
