//! Ranges of a blob: as they are asked for, as they are answered, and what is made of them.

use std::ops::Range;

use hyper::HeaderMap;
use hyper::header::{CONTENT_RANGE, HeaderValue, RANGE};

use super::fault::Fault;

/// The range that is asked for, if it is a single one that has both ends (RFC 9110, 14.2).
pub(super) fn asked(headers: &HeaderMap) -> Option<Range<u64>> {
    let value = headers.get(RANGE)?.to_str().ok()?;
    let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
    Some(first.parse().ok()?..last.parse::<u64>().ok()? + 1)
}

/// The range that an answer says it is, and how long the blob is.
pub(super) fn answered(headers: &HeaderMap) -> Option<(Range<u64>, String)> {
    let value = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, length) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let range = first.parse().ok()?..last.parse::<u64>().ok()? + 1;
    Some((range, length.to_owned()))
}

/// What the registry is asked for in place of a range, if a fault wants it so.
pub(super) fn instead(asked: &Range<u64>, fault: Option<&Fault>) -> Option<HeaderValue> {
    let range = match fault? {
        Fault::OtherRange { by } | Fault::ShiftedRange { by } => asked.start + by..asked.end + by,
        Fault::ShortRange { bytes } => asked.start..asked.end.min(asked.start + (*bytes).max(1)),
        _ => return None,
    };
    Some(header(&format!("bytes={}-{}", range.start, range.end - 1)))
}

/// Says of an answer that it is of another range, as long as it is.
pub(super) fn pretend(headers: &mut HeaderMap, start: u64) {
    if let Some((range, length)) = answered(headers) {
        let last = start + (range.end - range.start) - 1;
        let value = header(&format!("bytes {start}-{last}/{length}"));
        headers.insert(CONTENT_RANGE, value);
    }
}

fn header(value: &str) -> HeaderValue {
    value.parse().expect("a range is a header value")
}
