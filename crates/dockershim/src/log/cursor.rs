//! Position that a log file has reached in the engine's log.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

use orlop_cri_api::log::Entry;
use orlop_fs::LogPlace;

use super::lines::Piece;
use crate::clock;

/// The latest timestamps in a log file, with the number of pieces that have each one.
///
/// Timestamps separate old from new pieces only at the start of a stream, where the engine repeats recent ones. All
/// later pieces are new: the engine stores the two streams of a container interleaved, and their timestamps may be out
/// of order. The engine is therefore asked for slightly more than is missing, so that the last pieces of one stream
/// are not taken for old.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Number of pieces by nanoseconds since the epoch.
    recent: BTreeMap<i64, u32>,
    /// The earliest time that is requested.
    floor: i64,
    /// State of the last request until a later piece arrives.
    again: Option<Again>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Again {
    from: i64,
    until: i64,
    /// Pieces that are written and that the engine has not repeated yet.
    left: BTreeMap<i64, u32>,
}

/// Maximum disorder of timestamps in nanoseconds: the engine may be delayed between the timestamp of a piece and its
/// storage.
const DISORDER: i64 = 100_000_000;

/// Maximum number of timestamps kept.
const MOST: usize = 512;

/// Bytes read from the end of a file, which contain its last lines: a line has up to 16 KiB of content.
const TAIL: u64 = 256 * 1024;

impl Cursor {
    /// Creates a cursor before all pieces from this time on.
    pub(super) fn at(time: i64) -> Self {
        Self {
            floor: time,
            ..Self::default()
        }
    }

    /// Creates a cursor after the content of a log. An empty file continues the newest rotated one.
    pub(super) fn of_log(path: &Path) -> io::Result<Self> {
        let place = match LogPlace::find(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            found => found?,
        };
        let own = match place.read_part(place.name()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            opened => Self::of_file(opened?)?,
        };
        if own != Self::default() {
            return Ok(own);
        }
        match newest_rotated(&place)? {
            Some(rotated) => Self::of_file(place.read_part(&rotated)?),
            None => Ok(own),
        }
    }

    fn of_file(file: File) -> io::Result<Self> {
        Ok(Self::of_text(&orlop_fs::read_end(file, TAIL)?))
    }

    fn of_text(text: &[u8]) -> Self {
        let mut cursor = Self::default();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            // A torn last line is written again.
            if let Ok(entry) = Entry::parse(line)
                && line.ends_with(b"\n")
            {
                let time = clock::parse(entry.time);
                if cursor.floor == 0 {
                    // Older pieces, in this file or another, are unknown.
                    cursor.floor = time;
                }
                cursor.note(time);
            }
        }
        cursor
    }

    /// Returns the `since` parameter for the engine, which repeats recent pieces.
    pub(super) fn ask(&mut self) -> String {
        let until = self.latest();
        let from = self.floor.max(until - DISORDER);
        if from <= 0 && until == 0 {
            return String::new();
        }
        let left = self
            .recent
            .range(from..)
            .map(|(time, count)| (*time, *count));
        self.again = Some(Again {
            from,
            until,
            left: left.collect(),
        });
        if from <= 0 {
            return String::new();
        }
        clock::since(from)
    }

    /// Whether a piece is new; records it as written.
    pub(super) fn is_new(&mut self, piece: &Piece) -> bool {
        if let Some(again) = &mut self.again {
            if piece.time < again.from {
                return false;
            }
            if let Some(count) = again.left.get_mut(&piece.time).filter(|count| **count > 0) {
                *count -= 1;
                return false;
            }
            if piece.time > again.until.saturating_add(DISORDER) {
                self.again = None;
            }
        }
        self.note(piece.time);
        true
    }

    fn note(&mut self, time: i64) {
        *self.recent.entry(time).or_default() += 1;
        let old = self.latest() - DISORDER;
        while let Some(entry) = self.recent.first_entry() {
            let time = *entry.key();
            if self.recent.len() > MOST {
                self.floor = self.floor.max(time + 1);
            } else if time >= old {
                break;
            }
            self.recent.pop_first();
        }
    }

    fn latest(&self) -> i64 {
        self.recent.last_key_value().map_or(0, |(time, _)| *time)
    }
}

/// Finds the newest rotated file. The kubelet renames `0.log` to `0.log.YYYYMMDD-HHMMSS` and compresses older files.
fn newest_rotated(place: &LogPlace) -> io::Result<Option<OsString>> {
    let prefix = place.suffixed(".");
    let is_rotated = |name: &OsString| {
        let rest = name
            .as_encoded_bytes()
            .strip_prefix(prefix.as_encoded_bytes());
        rest.is_some_and(|rest| {
            !rest.is_empty() && rest.iter().all(|c| c.is_ascii_digit() || *c == b'-')
        })
    };
    Ok(place.parts()?.into_iter().filter(is_rotated).max())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orlop_cri_api::log::Stream;

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
            assert_eq!(cursor.ask(), "1.900000000");
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

    /// The other stream's last line was stored after a later one of this.
    #[test]
    fn last_words_that_are_out_of_order_are_not_taken_for_old() {
        let second = 1_000_000_000;
        let mut cursor = Cursor::at(second);
        assert_eq!(cursor.ask(), "1.000000000");
        for time in [second, second + 30, second + 50] {
            assert!(cursor.is_new(&piece(time)));
        }
        assert_eq!(cursor.ask(), "1.000000000");
        let told = [second, second + 30, second + 50, second + 40];
        let new: Vec<bool> = told
            .iter()
            .map(|time| cursor.is_new(&piece(*time)))
            .collect();
        assert_eq!(new, [false, false, false, true]);
    }

    #[test]
    fn what_is_remembered_of_a_torrent_is_bounded_and_nothing_is_written_twice() {
        let mut cursor = Cursor::default();
        let torrent = || (1..=5 * MOST as i64).map(piece);
        assert!(torrent().all(|piece| cursor.is_new(&piece)));
        assert!(cursor.recent.len() <= MOST);
        cursor.ask();
        assert!(torrent().all(|piece| !cursor.is_new(&piece)));
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
