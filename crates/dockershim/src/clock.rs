//! Points in time, as the CRI and the engine write them.

use jiff::Timestamp;

pub(crate) use orlop_cri_server::clock::now;

/// The engine's RFC 3339 as nanoseconds since the epoch; 0 for its "never" (the year 1).
pub(crate) fn parse(text: &str) -> i64 {
    text.parse::<Timestamp>().map_or(0, nanos).max(0)
}

fn nanos(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(0)
}

/// Seconds, a dot, nanoseconds: how the engine wants the beginning of a stream.
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
