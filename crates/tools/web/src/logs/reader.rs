//! Reader of one log, which returns lines in batches.

use std::fmt::Write as _;
use std::io::Result;
use std::path::Path;

use orlop_cri_api::log::Line as FileLine;
use orlop_fs::FollowedLog;
use serde_json::Value;

use super::line::Line;

/// Limits of one batch.
const MOST_LINES: usize = 500;
const MOST_BYTES: usize = 64 << 10;

/// Longer lines are truncated.
const LONGEST_LINE: usize = 64 << 10;

/// Size of the file's end in which the last lines are searched.
const TAIL: u64 = 128 << 20;

/// Reader of a log.
pub(super) struct Reader {
    log: FollowedLog,
    /// Incomplete lines of each stream.
    begun: [Vec<u8>; 2],
    /// Bytes that existed when the log was opened and are not read yet.
    behind: u64,
}

impl Reader {
    /// Opens a container's log at its last lines. Blocks.
    pub(super) fn open(path: &Path, id: &str, tail: u32) -> Result<Self> {
        let mut log = FollowedLog::open(path, id)?;
        log.seek_tail(tail.into(), TAIL, FileLine::goes_on)?;
        Ok(Self {
            behind: log.unread()?,
            log,
            begun: [Vec::new(), Vec::new()],
        })
    }

    /// Returns whether some data from before the opening is unread.
    pub(super) fn is_behind(&self) -> bool {
        self.behind > 0
    }

    /// Returns the next lines as JSON, or `None` if there are none now. Blocks on the file.
    pub(super) fn batch(&mut self) -> Result<Option<String>> {
        let mut told = String::from("[");
        let (mut lines, mut bytes) = (0, 0);
        while lines < MOST_LINES && bytes < MOST_BYTES {
            let Some(line) = self.log.line()? else {
                if self.log.follow_rotation()? {
                    continue;
                }
                break;
            };
            self.behind = self.behind.saturating_sub(line.len() as u64);
            let line = Line::read(&line);
            let begun = &mut self.begun[line.stream];
            let room = LONGEST_LINE.saturating_sub(begun.len());
            begun.extend(line.content.iter().take(room));
            if line.is_partial {
                // The truncated part of a long line was read as well.
                bytes += line.content.len();
                continue;
            }
            let text = String::from_utf8_lossy(begun);
            let time = line.time.map_or(Value::Null, Value::from);
            if lines > 0 {
                told.push(',');
            }
            let _ = write!(told, "[{time},{},{}]", line.stream + 1, Value::from(&*text));
            bytes += begun.len();
            lines += 1;
            begun.clear();
        }
        if lines == 0 && bytes == 0 {
            return Ok(None);
        }
        told.push(']');
        Ok(Some(told))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Write as _;

    use super::*;

    fn lines(reader: &mut Reader) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(batch) = reader.batch().unwrap() {
            let Value::Array(more) = serde_json::from_str(&batch).unwrap() else {
                panic!("{batch}");
            };
            assert!(more.len() <= MOST_LINES);
            all.extend(more);
        }
        all
    }

    #[test]
    fn parts_are_joined_and_hostile_lines_stay_strings() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let markup = "</script><img src=x onerror=alert(1)>\u{1b}[2J\"]}";
        let text = format!(
            "2026-01-02T03:04:05Z stdout P one \n2026-01-02T03:04:05Z stderr F {markup}\n2026-01-02T03:04:05Z stdout F two\n"
        );
        std::fs::write(&path, text).unwrap();
        let mut reader = Reader::open(&path, "", 10).unwrap();
        let told = lines(&mut reader);
        assert_eq!((&told[0][1], &told[0][2]), (&2.into(), &markup.into()));
        assert_eq!((&told[1][1], &told[1][2]), (&1.into(), &"one two".into()));
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"2026-01-02T03:04:05Z stdout F mor")
            .unwrap();
        assert!(reader.batch().unwrap().is_none(), "the line has no end yet");
        file.write_all(b"e\xff\n").unwrap();
        assert_eq!(lines(&mut reader)[0][2], "more\u{fffd}");
    }

    #[test]
    fn the_last_lines_of_a_log_of_docker_s_own_driver_are_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let parts = ["one\\n", "tw", "o ", "stdout P x\\n", "three\\n"];
        let lines_of_file: Vec<_> = parts
            .iter()
            .map(|text| format!("{{\"log\":\"{text}\",\"stream\":\"stdout\"}}\n"))
            .collect();
        std::fs::write(&path, lines_of_file.concat()).unwrap();
        let mut reader = Reader::open(&path, "", 2).unwrap();
        let told: Vec<_> = lines(&mut reader)
            .iter()
            .map(|line| line[2].clone())
            .collect();
        assert_eq!(told, ["two stdout P x", "three"]);
    }

    #[test]
    fn batches_and_lines_are_of_a_bounded_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut file = File::create(&path).unwrap();
        for i in 0..1200 {
            writeln!(file, "2026-01-02T03:04:05Z stdout F {i}").unwrap();
        }
        for _ in 0..100 {
            let part = "x".repeat(16 << 10);
            writeln!(file, "2026-01-02T03:04:05Z stdout P {part}").unwrap();
        }
        writeln!(file, "2026-01-02T03:04:05Z stdout F end").unwrap();
        let mut reader = Reader::open(&path, "", 1001).unwrap();
        let told = lines(&mut reader);
        assert_eq!((told.len(), &told[0][2]), (1001, &"200".into()));
        assert_eq!(told[1000][2].as_str().unwrap().len(), LONGEST_LINE);
    }
}
