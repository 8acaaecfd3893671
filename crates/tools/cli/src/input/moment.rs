//! Points in time on the command line.

use std::time::SystemTime;

use anyhow::bail;
use jiff::Timestamp;

use crate::input::Span;

/// Parses a point in time: a duration before now, RFC 3339 with or without offset, a date, or seconds since the epoch.
pub(crate) fn moment(text: &str) -> anyhow::Result<Timestamp> {
    if text.ends_with(|c: char| c.is_ascii_alphabetic())
        && let Ok(Span(ago)) = text.parse()
        && let Some(then) = SystemTime::now().checked_sub(ago)
    {
        return Ok(Timestamp::try_from(then)?);
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(timestamp);
    }
    if let Ok(local) = text.parse::<jiff::civil::DateTime>() {
        return Ok(local.to_zoned(jiff::tz::TimeZone::system())?.timestamp());
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    match (seconds.parse(), format!("{fraction:0<9}").parse()) {
        (Ok(seconds), Ok(nanoseconds)) => Ok(Timestamp::new(seconds, nanoseconds)?),
        _ => {
            bail!(
                "`{text}` is not a valid time; write 42m, 2026-01-02T13:23:37 or seconds since the \
                 epoch"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_given_in_many_ways() {
        let zulu: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        assert_eq!(moment("2026-01-02T03:04:05Z").unwrap(), zulu);
        assert_eq!(moment("1767323045").unwrap(), zulu);
        assert_eq!(
            moment("1767323045.5").unwrap().subsec_nanosecond(),
            500_000_000
        );
        assert!(moment("2026-01-02T03:04:05").is_ok() && moment("2026-01-02").is_ok());
        let ago = Timestamp::now().as_second() - moment("42m").unwrap().as_second();
        assert!((2519..=2521).contains(&ago), "{ago}");
        assert!(moment("soon").is_err());
    }
}
