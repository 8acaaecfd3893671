//! Parser of log file lines, each a complete line of a container or a part of one.

use std::borrow::Cow;

use jiff::Timestamp;
use orlop_cri_api::log::{Line as FileLine, Stream};

/// A line, or a part of one.
#[derive(Debug, PartialEq)]
pub(super) struct Line<'a> {
    /// Milliseconds since the epoch.
    pub(super) time: Option<f64>,
    /// 0 is standard output, 1 standard error.
    pub(super) stream: usize,
    /// Whether the line continues in the next entry of its stream.
    pub(super) is_partial: bool,
    pub(super) content: Cow<'a, [u8]>,
}

impl<'a> Line<'a> {
    /// Parses a line in the format of the CRI or of Docker. A line in another format is shown unchanged.
    pub(super) fn read(line: &'a [u8]) -> Self {
        let Ok(found) = FileLine::parse(line) else {
            return Self {
                time: None,
                stream: 0,
                is_partial: false,
                content: line.strip_suffix(b"\n").unwrap_or(line).into(),
            };
        };
        let entry = found.entry();
        Self {
            time: millis(entry.time),
            stream: usize::from(entry.stream == Stream::Stderr),
            is_partial: entry.partial,
            content: match &found {
                FileLine::Cri(entry) => entry.content.into(),
                FileLine::Docker { .. } => entry.content.to_vec().into(),
            },
        }
    }
}

fn millis(time: &str) -> Option<f64> {
    let time: Timestamp = time.parse().ok()?;
    Some(time.as_millisecond() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_runtimes_and_of_docker_are_read_and_others_shown() {
        let line = Line::read(b"2026-01-02T03:04:05.678901234Z stderr P a b\n");
        assert_eq!((line.stream, line.is_partial), (1, true));
        assert_eq!(&*line.content, b"a b");
        assert_eq!(line.time, Some(1_767_323_045_678.0));
        let line =
            Line::read(br#"{"log":"words\n","stream":"stderr","time":"2026-01-02T03:04:05Z"}"#);
        assert_eq!(
            (line.stream, line.is_partial, &*line.content),
            (1, false, &b"words"[..])
        );
        let line = Line::read(br#"{"log":"half"}"#);
        assert!(line.is_partial && line.time.is_none());
        let line = Line::read(b"\xff no format\n");
        assert_eq!(
            (&*line.content, line.is_partial),
            (&b"\xff no format"[..], false)
        );
    }
}
