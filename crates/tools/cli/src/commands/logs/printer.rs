//! Printer of one log's entries.

use std::io::{self, Write};

use anyhow::Context;
use jiff::Timestamp;
use orlop_cri_api::log::{Entry, Line, Stream};
use orlop_fs::FollowedLog as Log;

/// Prints entries as the process wrote them.
pub(super) struct Printer {
    pub(super) since: Option<Timestamp>,
    pub(super) only: Option<Stream>,
    pub(super) timestamps: bool,
    /// Bytes left to print.
    pub(super) left: Option<u64>,
    /// Whether the next entry starts a line, for each stream.
    pub(super) begin: [bool; 2],
}

impl Printer {
    /// Prints the available entries; `false` when the limit is reached.
    pub(super) fn all(&mut self, log: &mut Log, out: &mut impl Write) -> anyhow::Result<bool> {
        while let Some(line) = log.line().context("cannot read the log")? {
            match Line::parse(&line) {
                Ok(line) => {
                    let entry = line.entry();
                    let mut err = io::stderr().lock();
                    let more = match entry.stream {
                        Stream::Stdout => self.print(&entry, out)?,
                        Stream::Stderr => {
                            // Keeps the written order if both streams go to one file.
                            out.flush()?;
                            self.print(&entry, &mut err)?
                        }
                    };
                    if !more {
                        return Ok(false);
                    }
                }
                Err(error) => say!("warning: {error}"),
            }
        }
        Ok(true)
    }

    fn print(&mut self, entry: &Entry<'_>, out: &mut impl Write) -> io::Result<bool> {
        if self.only.is_some_and(|only| only != entry.stream) || self.is_too_old(entry.time) {
            return Ok(true);
        }
        let begin = &mut self.begin[usize::from(entry.stream == Stream::Stderr)];
        let mut text = Vec::with_capacity(entry.content.len() + 40);
        if self.timestamps && *begin {
            text.extend_from_slice(entry.time.as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(entry.content);
        *begin = !entry.partial;
        if !entry.partial {
            text.push(b'\n');
        }
        let length = match self.left {
            Some(left) => usize::try_from(left).unwrap_or(usize::MAX).min(text.len()),
            None => text.len(),
        };
        out.write_all(&text[..length])?;
        self.left = self.left.map(|left| left - length as u64);
        Ok(self.left != Some(0))
    }

    fn is_too_old(&self, time: &str) -> bool {
        match (self.since, time.parse::<Timestamp>()) {
            (Some(since), Ok(time)) => time < since,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> (tempfile::TempDir, Log) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        std::fs::write(&path, lines.concat()).unwrap();
        let log = Log::open(&path, "").unwrap();
        (directory, log)
    }

    fn printer() -> Printer {
        Printer {
            since: None,
            only: Some(Stream::Stdout),
            timestamps: false,
            left: None,
            begin: [true; 2],
        }
    }

    fn printed(printer: &mut Printer, log: &mut Log) -> String {
        let mut out = Vec::new();
        printer.all(log, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const LINES: [&str; 5] = [
        "2026-01-01T00:00:01Z stdout F one\n",
        "2026-01-01T00:00:02Z stdout P tw\n",
        "2026-01-01T00:00:02Z stderr F error\n",
        "2026-01-01T00:00:02Z stdout F o\n",
        "2026-01-01T00:00:03Z stdout F three\n",
    ];

    #[test]
    fn parts_are_put_together_and_streams_kept_apart() {
        assert_eq!(
            printed(&mut printer(), &mut log(&LINES).1),
            "one\ntwo\nthree\n"
        );
        let mut dated = Printer {
            timestamps: true,
            ..printer()
        };
        assert_eq!(
            printed(&mut dated, &mut log(&LINES).1),
            "2026-01-01T00:00:01Z one\n2026-01-01T00:00:02Z two\n2026-01-01T00:00:03Z three\n"
        );
    }

    #[test]
    fn only_the_part_that_was_asked_for_is_printed() {
        let mut late = Printer {
            since: Some("2026-01-01T00:00:02Z".parse().unwrap()),
            ..printer()
        };
        assert_eq!(printed(&mut late, &mut log(&LINES).1), "two\nthree\n");
        let mut short = Printer {
            left: Some(5),
            ..printer()
        };
        assert_eq!(printed(&mut short, &mut log(&LINES).1), "one\nt");
        for (lines, expected) in [
            (0, ""),
            (1, "three\n"),
            (2, "o\nthree\n"),
            (9, "one\ntwo\nthree\n"),
        ] {
            let (_directory, mut log) = log(&LINES);
            log.seek_tail(lines, u64::MAX, Line::goes_on).unwrap();
            assert_eq!(printed(&mut printer(), &mut log), expected, "{lines}");
        }
    }

    #[test]
    fn a_log_of_docker_s_own_driver_is_printed_as_another() {
        let lines = [
            "{\"log\":\"one\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:01Z\"}\n",
            "{\"log\":\"tw\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:02Z\"}\n",
            "{\"log\":\"error\\n\",\"stream\":\"stderr\",\"time\":\"2026-01-01T00:00:02Z\"}\n",
            "{\"log\":\"o\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:02Z\"}\n",
        ];
        let mut dated = Printer {
            timestamps: true,
            ..printer()
        };
        assert_eq!(
            printed(&mut dated, &mut log(&lines).1),
            "2026-01-01T00:00:01Z one\n2026-01-01T00:00:02Z two\n"
        );
        let (_directory, mut log) = log(&lines[..2]);
        log.seek_tail(1, u64::MAX, Line::goes_on).unwrap();
        assert_eq!(printed(&mut printer(), &mut log), "tw");
    }

    #[test]
    fn output_without_a_line_end_is_the_last_line() {
        let text = [
            "2026-01-01T00:00:01Z stdout F one\n",
            "2026-01-01T00:00:02Z stdout P end\n",
        ];
        for (lines, expected) in [(0, ""), (1, "end"), (2, "one\nend")] {
            let (_directory, mut log) = log(&text);
            log.seek_tail(lines, u64::MAX, Line::goes_on).unwrap();
            assert_eq!(printed(&mut printer(), &mut log), expected, "{lines}");
        }
    }

    #[test]
    fn a_log_is_followed_over_rotation_without_loss() {
        let (directory, mut log) = log(&LINES[..1]);
        let path = directory.path().join("0.log");
        let mut printer = printer();
        assert_eq!(printed(&mut printer, &mut log), "one\n");
        assert!(!log.follow_rotation().unwrap());

        let rotated = directory.path().join("0.log.1");
        std::fs::rename(&path, &rotated).unwrap();
        std::fs::write(&path, LINES[4]).unwrap();
        let mut old = std::fs::OpenOptions::new()
            .append(true)
            .open(&rotated)
            .unwrap();
        old.write_all(b"2026-01-01T00:00:01Z stdout F late\n")
            .unwrap();
        let mut text = String::new();
        while log.follow_rotation().unwrap() {
            text += &printed(&mut printer, &mut log);
        }
        assert_eq!(text, "late\nthree\n");
    }

    #[test]
    fn a_line_is_printed_once_it_is_whole() {
        let (directory, mut log) = log(&["2026-01-01T00:00:01Z stdout F ha"]);
        let mut printer = printer();
        assert_eq!(printed(&mut printer, &mut log), "");
        let path = directory.path().join("0.log");
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"lf\n").unwrap();
        assert_eq!(printed(&mut printer, &mut log), "half\n");
    }
}
