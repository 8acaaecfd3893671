//! Byte ranges of requests and responses, and their faults.

use std::ops::Range;

use hyper::HeaderMap;
use hyper::header::{CONTENT_RANGE, HeaderValue, RANGE};

use super::fault::Fault;

/// Returns the requested range, if it is a single one with both ends (RFC 9110, 14.2).
pub(super) fn asked(headers: &HeaderMap) -> Option<Range<u64>> {
    let value = headers.get(RANGE)?.to_str().ok()?;
    let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
    Some(first.parse().ok()?..last.parse::<u64>().ok()? + 1)
}

/// Returns the range in a response, and the length of the blob.
pub(super) fn answered(headers: &HeaderMap) -> Option<(Range<u64>, String)> {
    let value = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, length) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let range = first.parse().ok()?..last.parse::<u64>().ok()? + 1;
    Some((range, length.to_owned()))
}

/// Returns the `Range` to request from the registry instead, if a fault requires it.
pub(super) fn instead(asked: &Range<u64>, fault: Option<&Fault>) -> Option<HeaderValue> {
    let range = match fault? {
        Fault::OtherRange { by } | Fault::ShiftedRange { by } => asked.start + by..asked.end + by,
        Fault::ShortRange { bytes } => asked.start..asked.end.min(asked.start + (*bytes).max(1)),
        _ => return None,
    };
    Some(header(&format!("bytes={}-{}", range.start, range.end - 1)))
}

/// Changes the start of the range in a response, keeping its length.
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
