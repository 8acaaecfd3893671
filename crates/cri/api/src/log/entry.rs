//! Entries of a log in the CRI's format: `TIME STREAM TAGS CONTENT`.
//!
//! `TAGS` are joined by colons. The first is `F` for a full line, or `P` for a partial line that continues in the next
//! entry of its stream. Readers ignore unknown further tags.

use std::fmt;

/// The output stream of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        })
    }
}

/// One line of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The time of the write, in RFC 3339 with nanoseconds; not validated further.
    pub time: &'a str,
    /// The output stream.
    pub stream: Stream,
    /// Whether the line continues in the next entry.
    pub partial: bool,
    /// The content, without the newline.
    pub content: &'a [u8],
}

/// A line that does not match the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the log has a line without {0}")]
pub struct EntryError(&'static str);

impl<'a> Entry<'a> {
    /// Parses a line, with or without its newline.
    pub fn parse(line: &'a [u8]) -> Result<Self, EntryError> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let (time, rest) = word(line).ok_or(EntryError("a time"))?;
        let time = std::str::from_utf8(time).map_err(|_| EntryError("a time"))?;
        let (stream, rest) = word(rest).ok_or(EntryError("a stream"))?;
        let stream = match stream {
            b"stdout" => Stream::Stdout,
            b"stderr" => Stream::Stderr,
            _ => return Err(EntryError("a stream")),
        };
        // An empty entry may lack the last space.
        let (tags, content) = word(rest).unwrap_or((rest, &[]));
        let partial = match tags.split(|byte| *byte == b':').next() {
            Some(b"F") => false,
            Some(b"P") => true,
            _ => return Err(EntryError("a tag")),
        };
        Ok(Self {
            time,
            stream,
            partial,
            content,
        })
    }
}

fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    Some((&line[..space], &line[space + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let entry = Entry::parse(b"2026-01-02T03:04:05.6Z stderr P:x a b \n").unwrap();
        assert_eq!(entry.time, "2026-01-02T03:04:05.6Z");
        assert_eq!((entry.stream, entry.partial), (Stream::Stderr, true));
        assert_eq!(entry.content, b"a b ");
        for line in [&b"t stdout F \n"[..], b"t stdout F\n", b"t stdout F "] {
            let entry = Entry::parse(line).unwrap();
            assert_eq!((entry.content, entry.partial), (&b""[..], false));
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            &b""[..],
            b"text",
            b"t stdin F x",
            b"t stdout X x",
            b"\xff stdout F x",
        ] {
            assert!(Entry::parse(line).is_err(), "{line:?}");
        }
    }
}
