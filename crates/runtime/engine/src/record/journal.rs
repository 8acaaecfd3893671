//! An append-only journal: one JSON line per event; the state is the result of all events.
//!
//! A line is appended with a single `write`, so that a killed daemon leaves whole lines. After a power loss
//! the tail may be torn. An unreadable tail is cut off, and a journal whose first line is unreadable counts
//! as absent. No request waits for a rename or a sync.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Serialize, de::DeserializeOwned};

/// Size limit in bytes; more than a pod ever writes.
const LARGEST: u64 = 1 << 30;

/// An append-only file of events of type `E`.
#[derive(Debug)]
pub struct Journal<E> {
    path: PathBuf,
    /// `None` while no event is expected.
    file: Option<File>,
    /// Length of the journal before a partial line that could not be cut off.
    torn_at: Option<u64>,
    _events: PhantomData<fn(E)>,
}

impl<E: Serialize + DeserializeOwned> Journal<E> {
    /// Creates a journal with its first event; fails if it exists.
    pub fn create(path: &Path, first: &E) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let mut journal = Self {
            path: path.to_owned(),
            file: Some(file),
            torn_at: None,
            _events: PhantomData,
        };
        journal.append(first)?;
        Ok(journal)
    }

    /// Opens a journal and reads its events. A torn tail is cut off, so that the next event starts on a line of
    /// its own. The list is empty if nothing is readable.
    pub fn open(path: &Path) -> io::Result<(Self, Vec<E>)> {
        let content = orlop_fs::read_file(path, LARGEST)?;
        let (events, good) = parse(&content);
        if is_foreign(&content[good..]) {
            let problem = "it has an entry of a newer version of orlop";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let file = reopened(path)?;
        if good < content.len() {
            tracing::warn!(
                path = %path.display(),
                bytes = content.len() - good,
                "the end of a record is damaged; dropping its last entry"
            );
            file.set_len(good as u64)?;
        }
        Ok((
            Self {
                path: path.to_owned(),
                file: Some(file),
                torn_at: None,
                _events: PhantomData,
            },
            events,
        ))
    }

    /// Appends an event.
    pub fn append(&mut self, event: &E) -> io::Result<()> {
        let mut line = serde_json::to_vec(event).map_err(io::Error::other)?;
        line.push(b'\n');
        let file = match &mut self.file {
            Some(file) => Ok(file),
            none => reopened(&self.path).map(|file| none.insert(file)),
        };
        let appended = file.and_then(|file| append(file, &mut self.torn_at, &line));
        appended.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        })
    }

    /// Closes the file until the next event.
    pub fn rest(&mut self) {
        self.file = None;
    }
}

fn reopened(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

/// The storage of a journal.
trait Medium {
    fn length(&self) -> io::Result<u64>;
    fn append(&mut self, line: &[u8]) -> io::Result<usize>;
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Medium for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn append(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write(line)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// Appends a line completely or not at all. A partial line that cannot be cut off blocks further appends,
/// because the next line would be read as the rest of it.
fn append(medium: &mut impl Medium, torn_at: &mut Option<u64>, line: &[u8]) -> io::Result<()> {
    if let Some(good) = *torn_at {
        medium.cut(good)?;
        *torn_at = None;
    }
    let before = medium.length()?;
    let written = medium.append(line)?;
    if written == line.len() {
        return Ok(());
    }
    // A full disk took only part of the line.
    *torn_at = Some(before);
    if medium.cut(before).is_ok() {
        *torn_at = None;
    }
    let problem = format!("only {written} of {} bytes were written", line.len());
    Err(io::Error::new(io::ErrorKind::StorageFull, problem))
}

/// Returns the readable events and the length of the text that contains them.
fn parse<E: DeserializeOwned>(content: &[u8]) -> (Vec<E>, usize) {
    let mut events = Vec::new();
    let mut good = 0;
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        let Some(text) = line.strip_suffix(b"\n") else {
            break;
        };
        let Ok(event) = serde_json::from_slice(text) else {
            break;
        };
        events.push(event);
        good += line.len();
    }
    (events, good)
}

/// Whether the unreadable rest is a complete line, written by another version rather than torn.
fn is_foreign(rest: &[u8]) -> bool {
    let line = rest.split_inclusive(|byte| *byte == b'\n').next();
    line.and_then(|line| line.strip_suffix(b"\n"))
        .is_some_and(|text| serde_json::from_slice::<serde_json::Value>(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text that is kept is a prefix of the file that reads the same again.
    #[test]
    fn fuzzed_journals_do_not_break_the_start() {
        use crate::record::{container, pod};
        let whole = "{\"event\":\"stopped\"}\n1\n[]\n{\"created\":{\"config\":\"\",\"handler\":\"\",\
                     \"at\":1}}\n\"stopped\"\n\"removed\"\n";
        orlop_testkit::Fuzz::new()
            .example(whole)
            .example("1\n2\n3\n")
            .words([
                "\n", "null", "{", "}", "\"", "1", "-1", "1e999", "\\ud800", "[[[[[[",
            ])
            .words([
                "Created",
                "Stopped",
                "\"at\":",
                "\"config\":\"CgA=\"",
                "\"image\":{",
            ])
            .run(|input| {
                let (numbers, good) = parse::<u32>(input);
                assert_eq!(parse::<u32>(&input[..good]), (numbers, good));
                let (events, good) = parse::<pod::Event>(input);
                assert_eq!(parse::<pod::Event>(&input[..good]).0.len(), events.len());
                let (events, good) = parse::<container::Event>(input);
                assert_eq!(
                    parse::<container::Event>(&input[..good]).0.len(),
                    events.len()
                );
                let _ = is_foreign(&input[good..]);
            });
    }

    #[test]
    fn an_entry_of_another_version_is_not_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let text = "1\n{\"event\":\"of the future\"}\n3\n";
        std::fs::write(&path, text).unwrap();
        assert!(Journal::<u32>::open(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn a_torn_tail_is_cut_off_and_the_next_event_survives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = Journal::create(&path, &1_u32).unwrap();
        journal.append(&2).unwrap();
        let mut torn = std::fs::read(&path).unwrap();
        torn.extend_from_slice(b"345");
        std::fs::write(&path, torn).unwrap();

        let (mut journal, events) = Journal::<u32>::open(&path).unwrap();
        assert_eq!(events, [1, 2]);
        journal.append(&6).unwrap();
        assert_eq!(Journal::<u32>::open(&path).unwrap().1, [1, 2, 6]);
    }

    #[test]
    fn a_journal_of_zeroes_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        std::fs::write(&path, [0; 4096]).unwrap();
        assert!(Journal::<u32>::open(&path).unwrap().1.is_empty());
    }

    #[test]
    fn a_second_journal_at_the_same_place_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        Journal::create(&path, &1_u32).unwrap();
        let error = Journal::create(&path, &1_u32).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
    /// A disk with limited space, which may refuse to truncate a file.
    struct Disk {
        content: Vec<u8>,
        room: usize,
        cuts: bool,
    }

    impl Medium for Disk {
        fn length(&self) -> io::Result<u64> {
            Ok(self.content.len() as u64)
        }

        fn append(&mut self, line: &[u8]) -> io::Result<usize> {
            let taken = line.len().min(self.room - self.content.len());
            self.content.extend_from_slice(&line[..taken]);
            Ok(taken)
        }

        fn cut(&mut self, length: u64) -> io::Result<()> {
            if !self.cuts {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.content.truncate(usize::try_from(length).unwrap());
            Ok(())
        }
    }

    #[test]
    fn no_event_is_lost_behind_a_part_of_a_line_that_could_not_be_cut_off() {
        let mut disk = Disk {
            content: Vec::new(),
            room: 8,
            cuts: false,
        };
        let mut torn_at = None;
        append(&mut disk, &mut torn_at, b"1\n").unwrap();
        append(&mut disk, &mut torn_at, b"1234567890\n").unwrap_err();
        assert_eq!(disk.content, b"1\n123456");
        disk.room = 100;
        append(&mut disk, &mut torn_at, b"2\n").unwrap_err();
        disk.cuts = true;
        append(&mut disk, &mut torn_at, b"3\n").unwrap();
        let (events, good) = parse::<u32>(&disk.content);
        assert_eq!((events, good), (vec![1, 3], disk.content.len()));
    }
}
