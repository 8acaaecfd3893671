//! Lines of a log file in the CRI's format or in that of Docker's own files, which a container's log links to under
//! cri-dockerd.

use serde_json::Value;

use super::{Entry, EntryError, Stream};

/// A line of a log file in either format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line<'a> {
    /// In the CRI's format.
    Cri(Entry<'a>),
    /// In Docker's format: `{"log":"…\n","stream":"stdout","time":"…"}`.
    Docker {
        /// The time as written.
        time: String,
        /// The output stream.
        stream: Stream,
        /// The content; a partial line has no newline.
        text: String,
    },
}

impl<'a> Line<'a> {
    /// Parses a line, with or without its newline.
    pub fn parse(line: &'a [u8]) -> Result<Self, EntryError> {
        // Output in Docker's format can look like a CRI entry, but no CRI entry starts like a Docker line.
        if line.first() == Some(&b'{')
            && let Some(dockers) = dockers(line)
        {
            return Ok(dockers);
        }
        Entry::parse(line).map(Self::Cri)
    }

    /// Returns the line as an entry.
    pub fn entry(&self) -> Entry<'_> {
        match self {
            Self::Cri(entry) => *entry,
            Self::Docker { time, stream, text } => {
                let whole = text.strip_suffix('\n');
                Entry {
                    time,
                    stream: *stream,
                    partial: whole.is_none(),
                    content: whole.unwrap_or(text).as_bytes(),
                }
            }
        }
    }

    /// Whether the line continues in the next one of its stream.
    pub fn goes_on(line: &[u8]) -> bool {
        Line::parse(line).is_ok_and(|line| line.entry().partial)
    }
}

/// Parses a Docker line; all fields except the text are optional.
fn dockers(line: &[u8]) -> Option<Line<'static>> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let stream = match line["stream"].as_str() {
        Some("stderr") => Stream::Stderr,
        _ => Stream::Stdout,
    };
    Some(Line::Docker {
        time: line["time"].as_str().unwrap_or_default().to_owned(),
        stream,
        text: line.get("log")?.as_str()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_container_of_docker_s_prints_is_no_entry_of_its_own() {
        for printed in [
            "words",
            "x stdout F y",
            "\" stderr P y",
            "2026-01-01T00:00:01Z stderr F y",
        ] {
            let text = Value::from(format!("{printed}\n"));
            let line = format!("{{\"log\":{text},\"stream\":\"stdout\",\"time\":\"t\"}}\n");
            let line = Line::parse(line.as_bytes()).unwrap();
            let expected = Entry {
                time: "t",
                stream: Stream::Stdout,
                partial: false,
                content: printed.as_bytes(),
            };
            assert_eq!(line.entry(), expected);
        }
    }

    #[test]
    fn parts_of_lines_go_on_in_either_format() {
        assert!(Line::goes_on(b"t stdout P x\n"));
        assert!(!Line::goes_on(b"t stdout F x\n"));
        assert!(Line::goes_on(b"{\"log\":\"x\"}\n"));
        assert!(!Line::goes_on(b"{\"log\":\"x\\n\"}\n"));
        assert!(!Line::goes_on(b"words\n"));
    }

    #[test]
    fn other_lines_are_refused_and_entries_that_begin_alike_are_none_of_docker_s() {
        for line in [&b""[..], b"{}", b"{\"log\":1}", b"{\"log\":\"x\"", b"words"] {
            assert!(Line::parse(line).is_err(), "{line:?}");
        }
        let entry = Line::parse(b"{ stdout F x").unwrap();
        assert_eq!(entry.entry().content, b"x");
    }
}
