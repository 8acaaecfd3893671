//! Container logs in the CRI format: `TIME STREAM TAG CONTENT` on each line.

use std::path::Path;

/// An entry of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Time in RFC 3339 with nanoseconds.
    pub time: String,
    /// `stdout` or `stderr`.
    pub stream: String,
    /// Whether the line continues in the next entry (tag `P`, not `F`).
    pub partial: bool,
    /// Content without the newline.
    pub content: Vec<u8>,
}

/// Reads a log; panics on an invalid line.
pub fn read_log(path: &Path) -> Vec<LogLine> {
    let bytes =
        std::fs::read(path).unwrap_or_else(|e| panic!("reading the log {}: {e}", path.display()));
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| {
            parse(line).unwrap_or_else(|| {
                panic!(
                    "{} has no log line: {:?}",
                    path.display(),
                    String::from_utf8_lossy(line)
                )
            })
        })
        .collect()
}

fn parse(line: &[u8]) -> Option<LogLine> {
    let line = line.strip_suffix(b"\n")?;
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let mut word = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let (time, stream, tag) = (word()?.to_owned(), word()?.to_owned(), word()?.to_owned());
    let known = time.len() >= "2006-01-02T15:04:05Z".len()
        && ["stdout", "stderr"].contains(&stream.as_str())
        && ["P", "F"].contains(&tag.as_str());
    let content = parts.next()?.to_vec();
    known.then(|| LogLine {
        time,
        stream,
        partial: tag == "P",
        content,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let line = parse(b"2026-01-02T03:04:05.000000006Z stderr P a b \xff\n").expect("a line");
        assert_eq!(line.stream, "stderr");
        assert!(line.partial);
        assert_eq!(line.content, b"a b \xff");
    }

    #[test]
    fn what_is_torn_or_foreign_is_refused() {
        assert_eq!(parse(b"2026-01-02T03:04:05Z stdout F no end"), None);
        assert_eq!(parse(b"2026-01-02T03:04:05Z stdin F x\n"), None);
        assert_eq!(parse(b"hello\n"), None);
    }
}
