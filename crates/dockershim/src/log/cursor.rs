//! How far a log file has come.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use orlop_cri::log::Entry;

use super::lines::Piece;
use crate::clock;

/// The latest time in a file, and how many pieces have it.
///
/// Times tell old from new only at the beginning of a stream, where the engine tells again of
/// what was last. After that everything is new: the two streams of a container are stored side by
/// side, and their times may be out of order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Nanoseconds since the epoch; 0 if there is nothing yet.
    time: i64,
    written: u32,
    /// What the engine was asked for, until something later comes.
    again: Option<Again>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Again {
    from: i64,
    /// Of those with that time, how many have been told of.
    seen: u32,
}

/// The last lines of a file are in its last so many bytes: one has 16 KiB of content.
const TAIL: u64 = 256 * 1024;

impl Cursor {
    /// Before everything from this time on.
    pub(super) fn at(time: i64) -> Self {
        Self {
            time,
            ..Self::default()
        }
    }

    /// After what a log has. A file that was rotated away just now has it, if this one has
    /// nothing yet.
    pub(super) fn of_log(path: &Path) -> io::Result<Self> {
        let own = Self::of_file(path)?;
        if own != Self::default() {
            return Ok(own);
        }
        match newest_rotated(path) {
            Some(rotated) => Self::of_file(&rotated),
            None => Ok(own),
        }
    }

    fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut tail = Vec::new();
        file.take(TAIL).read_to_end(&mut tail)?;
        Ok(Self::of_text(&tail))
    }

    fn of_text(text: &[u8]) -> Self {
        let mut cursor = Self::default();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            // A torn last line is written once more.
            if let Ok(entry) = Entry::parse(line)
                && line.ends_with(b"\n")
            {
                let time = clock::parse(entry.time);
                if time == cursor.time {
                    cursor.written += 1;
                } else if time > cursor.time {
                    cursor = Self {
                        time,
                        written: 1,
                        again: None,
                    };
                }
            }
        }
        cursor
    }

    /// What to ask the engine for. It tells again of what has the last time.
    pub(super) fn ask(&mut self) -> String {
        match self.time {
            0 => String::new(),
            from => {
                self.again = Some(Again { from, seen: 0 });
                clock::since(from)
            }
        }
    }

    /// Whether a piece is to be written, and notes that it was.
    pub(super) fn is_new(&mut self, piece: &Piece) -> bool {
        if let Some(again) = &mut self.again {
            if piece.time < again.from {
                return false;
            }
            if piece.time > again.from {
                self.again = None;
            } else {
                again.seen += 1;
                if again.seen <= self.written {
                    return false;
                }
            }
        }
        if piece.time > self.time {
            self.time = piece.time;
            self.written = 0;
        }
        if piece.time == self.time {
            self.written += 1;
        }
        true
    }
}

/// The kubelet renames `0.log` to `0.log.YYYYMMDD-HHMMSS`, and packs older ones.
fn newest_rotated(path: &Path) -> Option<PathBuf> {
    let prefix = format!("{}.", path.file_name()?.to_str()?);
    let names = std::fs::read_dir(path.parent()?).ok()?;
    let newest = names
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            name.strip_prefix(&prefix).is_some_and(|rest| {
                !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit() || c == '-')
            })
        })
        .max()?;
    Some(path.with_file_name(newest))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orlop_cri::log::Stream;

    use super::*;

    fn piece(time: i64) -> Piece {
        Piece {
            time,
            stream: Stream::Stdout,
            content: Bytes::from_static(b"x"),
            partial: false,
        }
    }

    #[test]
    fn what_the_file_has_is_not_written_again() {
        let text = b"1970-01-01T00:00:01Z stdout F a\n1970-01-01T00:00:02Z stdout F b\n\
                     1970-01-01T00:00:02Z stderr P c\n1970-01-01T00:00:03Z std";
        let mut cursor = Cursor::of_text(text);
        for _ in 0..2 {
            assert_eq!(cursor.ask(), "2.000000000");
            assert!(!cursor.is_new(&piece(1_000_000_000)));
            assert!(!cursor.is_new(&piece(2_000_000_000)));
            assert!(!cursor.is_new(&piece(2_000_000_000)));
        }
        assert!(
            cursor.is_new(&piece(2_000_000_000)),
            "a third with this time"
        );
        assert!(cursor.is_new(&piece(3_000_000_000)));
        cursor.ask();
        assert!(!cursor.is_new(&piece(3_000_000_000)));
    }

    #[test]
    fn streams_that_are_out_of_order_lose_nothing() {
        let mut cursor = Cursor::default();
        cursor.ask();
        assert!(
            [5, 7, 6, 7, 8]
                .iter()
                .all(|time| cursor.is_new(&piece(*time)))
        );
        cursor.ask();
        assert!(!cursor.is_new(&piece(8)));
        assert!([9, 8, 9].iter().all(|time| cursor.is_new(&piece(*time))));
    }

    #[test]
    fn a_new_log_is_read_from_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut cursor = Cursor::of_log(&path).unwrap();
        assert_eq!(cursor.ask(), "");
        assert!(cursor.is_new(&piece(1)) && cursor.is_new(&piece(1)));
    }

    #[test]
    fn what_was_rotated_away_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let write = |name: &str, seconds: u32| {
            let line = format!("1970-01-01T00:00:0{seconds}Z stdout F a\n");
            std::fs::write(dir.path().join(name), line).unwrap();
        };
        write("0.log.20260101-000000.gz", 9);
        write("0.log.20260101-000001", 3);
        write("0.log.20260101-000002", 4);
        assert_eq!(Cursor::of_log(&path).unwrap().ask(), "4.000000000");
        write("0.log", 5);
        assert_eq!(Cursor::of_log(&path).unwrap().ask(), "5.000000000");
    }
}
