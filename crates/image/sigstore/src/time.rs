//! Times in seconds since 1970: parsing from certificates, and display.

use crate::der::{GENERALIZED_TIME, Malformed, UTC_TIME, Value};

const DAY: i64 = 86_400;

/// Parses a certificate's time (RFC 5280, 4.1.2.5).
pub(crate) fn parse(value: Value<'_>) -> Result<i64, Malformed> {
    let text = std::str::from_utf8(value.content).map_err(|_| Malformed)?;
    let digits = text.strip_suffix('Z').ok_or(Malformed)?;
    let well_formed = digits.bytes().all(|byte| byte.is_ascii_digit());
    let (year, rest) = match value.tag {
        UTC_TIME if well_formed && digits.len() == 12 => {
            let (year, rest) = digits.split_at(2);
            let year = number(year);
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME if well_formed && digits.len() == 14 => {
            let (year, rest) = digits.split_at(4);
            (number(year), rest)
        }
        _ => return Err(Malformed),
    };
    let part = |index: usize| number(&rest[2 * index..2 * index + 2]);
    let (month, day, hour, minute, second) = (part(0), part(1), part(2), part(3), part(4));
    let is_moment = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !is_moment {
        return Err(Malformed);
    }
    Ok(days(year, month, day) * DAY + hour * 3600 + minute * 60 + second)
}

/// Parses a timestamp's time (RFC 3161, 2.4.2); ignores fractions of a second.
pub(crate) fn parse_fraction(value: Value<'_>) -> Result<i64, Malformed> {
    let Some(dot) = value.content.iter().position(|byte| *byte == b'.') else {
        return parse(value);
    };
    let (whole, fraction) = value.content.split_at(dot);
    let digits = fraction[1..].strip_suffix(b"Z").ok_or(Malformed)?;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    let whole = [whole, b"Z"].concat();
    parse(Value {
        content: &whole,
        ..value
    })
}

/// The input contains only a few digits.
fn number(digits: &str) -> i64 {
    digits
        .bytes()
        .fold(0, |all, digit| all * 10 + i64::from(digit - b'0'))
}

/// Returns the days since 1970 in the Gregorian calendar, counted in years that begin with March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Formats a time according to RFC 3339.
pub(crate) fn show(seconds: i64) -> String {
    let (day, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let since = day.saturating_add(719_468);
    let (era, of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::der::{only, write};

    fn read(tag: u8, text: &str) -> Option<String> {
        let bytes = write(tag, text.as_bytes());
        parse(only(&bytes, tag).unwrap()).ok().map(show)
    }

    #[test]
    fn moments_are_read_and_shown() {
        for (tag, text, shown) in [
            (UTC_TIME, "700101000000Z", Some("1970-01-01T00:00:00Z")),
            (UTC_TIME, "250228191811Z", Some("2025-02-28T19:18:11Z")),
            (UTC_TIME, "491231235959Z", Some("2049-12-31T23:59:59Z")),
            (UTC_TIME, "500101000000Z", Some("1950-01-01T00:00:00Z")),
            (
                GENERALIZED_TIME,
                "20240229120000Z",
                Some("2024-02-29T12:00:00Z"),
            ),
            (
                GENERALIZED_TIME,
                "99991231235959Z",
                Some("9999-12-31T23:59:59Z"),
            ),
            (
                GENERALIZED_TIME,
                "00000101000000Z",
                Some("0000-01-01T00:00:00Z"),
            ),
            (GENERALIZED_TIME, "20241329120000Z", None),
            (GENERALIZED_TIME, "20240229240000Z", None),
            (GENERALIZED_TIME, "20240229120000", None),
            (GENERALIZED_TIME, "20240229120000.5Z", None),
            (UTC_TIME, "2502281918Z", None),
            (UTC_TIME, "+50228191811Z", None),
            (UTC_TIME, "é", None),
        ] {
            assert_eq!(read(tag, text).as_deref(), shown, "{text}");
        }
        for extreme in [i64::MIN, i64::MAX] {
            show(extreme);
        }
    }
}
