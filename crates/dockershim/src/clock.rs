//! Conversion of the timestamps of the CRI and the engine.

use jiff::Timestamp;

pub(crate) use orlop_cri_server::clock::now;

/// Parses an RFC 3339 timestamp of the engine to nanoseconds since the epoch; the engine's "never" (the year 1) is 0.
pub(crate) fn parse(text: &str) -> i64 {
    text.parse::<Timestamp>().map_or(0, nanos).max(0)
}

fn nanos(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(0)
}

/// Formats a time as the engine's `since` parameter: seconds, a dot, nanoseconds.
pub(crate) fn since(nanos: i64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_times_are_read() {
        assert_eq!(parse("1970-01-01T00:00:01.000000005Z"), 1_000_000_005);
        assert_eq!(parse("1970-01-01T01:00:00.5+01:00"), 500_000_000);
        for never in ["0001-01-01T00:00:00Z", "", "x"] {
            assert_eq!(parse(never), 0, "{never}");
        }
        assert_eq!(since(1_000_000_005), "1.000000005");
    }
}
