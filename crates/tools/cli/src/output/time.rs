//! Formats of points in time, given in nanoseconds since the epoch.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats a time as "3 minutes ago".
pub(crate) fn ago(nanoseconds: i64) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let passed = i128::try_from(now).unwrap_or(i128::MAX) - i128::from(nanoseconds);
    format!("{} ago", roughly(passed))
}

/// Formats a time as RFC 3339 with nanoseconds in the local time zone.
pub(crate) fn rfc3339(nanoseconds: i64) -> String {
    formatted(nanoseconds, "%Y-%m-%dT%H:%M:%S%.f", true)
}

/// Formats a time in full: date, time, offset and name of the time zone.
pub(crate) fn full(nanoseconds: i64) -> String {
    formatted(nanoseconds, "%Y-%m-%d %H:%M:%S%.f %z %Z", false)
}

fn formatted(nanoseconds: i64, format: &str, offset: bool) -> String {
    let Ok(timestamp) = Timestamp::from_nanosecond(nanoseconds.into()) else {
        return nanoseconds.to_string();
    };
    let zoned = timestamp.to_zoned(TimeZone::system());
    let mut text = zoned.strftime(format).to_string();
    if offset {
        if zoned.offset().is_zero() {
            text.push('Z');
        } else {
            text.push_str(&zoned.strftime("%:z").to_string());
        }
    }
    text
}

/// Formats a duration with one number and unit.
fn roughly(nanoseconds: i128) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let minutes = seconds / 60;
    // From here on rounded to the nearest hour.
    let hours = (seconds + 1800) / 3600;
    match () {
        () if seconds < 1 => "Less than a second".to_owned(),
        () if seconds == 1 => "1 second".to_owned(),
        () if seconds < 60 => format!("{seconds} seconds"),
        () if minutes == 1 => "About a minute".to_owned(),
        () if minutes < 60 => format!("{minutes} minutes"),
        () if hours == 1 => "About an hour".to_owned(),
        () if hours < 48 => format!("{hours} hours"),
        () if hours < 24 * 7 * 2 => format!("{} days", hours / 24),
        () if hours < 24 * 30 * 2 => format!("{} weeks", hours / 24 / 7),
        () if hours < 24 * 365 * 2 => format!("{} months", hours / 24 / 30),
        () => format!("{} years", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_rough() {
        let second = 1_000_000_000_i128;
        let hour = 3600 * second;
        for (length, words) in [
            (second / 2, "Less than a second"),
            (second, "1 second"),
            (59 * second, "59 seconds"),
            (61 * second, "About a minute"),
            (59 * 60 * second, "59 minutes"),
            (hour, "About an hour"),
            (hour + 1800 * second, "2 hours"),
            (47 * hour, "47 hours"),
            (49 * hour, "2 days"),
            (20 * 24 * hour, "2 weeks"),
            (90 * 24 * hour, "3 months"),
            (1000 * 24 * hour, "2 years"),
        ] {
            assert_eq!(roughly(length), words);
        }
    }

    #[test]
    fn times_are_exact_for_programs() {
        let text = rfc3339(1_700_000_000_120_000_000);
        let parsed: Timestamp = text.parse().unwrap();
        assert_eq!(parsed.as_nanosecond(), 1_700_000_000_120_000_000);
        assert!(text.contains(".12"), "{text}");
        assert!(!rfc3339(1_700_000_000_000_000_000).contains('.'));
    }
}
