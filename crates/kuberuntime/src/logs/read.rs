//! Reads a container's log, as `kubectl logs` asks for it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use flate2::read::GzDecoder;
use orlop_cri::log::{Line, Stream};
use orlop_disk::LogPlace;
use orlop_kubelet_rules::Timestamp;
use tokio::sync::mpsc::Sender;

use crate::manager::{LogQuery, RequestError};

/// How often a log that is followed is looked at.
const POLL: Duration = Duration::from_millis(200);
/// How much is read at once, and how long a line may be before it is passed on in parts.
const PART: usize = 64 * 1024;
/// How much of one file counts where its last lines are wanted; rotation keeps it far below.
const LONGEST_PART: u64 = 256 << 20;

/// A log, and whether its container still writes to it.
pub(crate) struct Source {
    /// The container.
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) is_running: Box<dyn Fn() -> bool + Send>,
}

impl Source {
    fn open(&self) -> io::Result<(LogPlace, File)> {
        let place = LogPlace::find(&self.path)?;
        let file = place.read(&self.id)?;
        Ok((place, file))
    }

    /// The file that has taken the place of the one at hand, if one has.
    fn replaced(&self, file: &File) -> Option<File> {
        let own = file.metadata().ok()?;
        let (_, there) = self.open().ok()?;
        let meta = there.metadata().ok()?;
        ((own.dev(), own.ino()) != (meta.dev(), meta.ino())).then_some(there)
    }
}

/// Reads a log to `out`. Blocks; ends early when nobody reads any more.
pub(crate) fn read(source: &Source, query: &LogQuery, out: &Sender<Result<Bytes, RequestError>>) {
    let fail = |source_error: io::Error| RequestError::Log {
        path: source.path.clone(),
        source: source_error,
    };
    let mut reader = LogFile {
        query,
        out,
        left: query.limit_bytes.unwrap_or(u64::MAX),
        line: Vec::new(),
    };
    if let Err(error) = reader.run(source)
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = out.blocking_send(Err(fail(error)));
    }
}

struct LogFile<'a> {
    query: &'a LogQuery,
    out: &'a Sender<Result<Bytes, RequestError>>,
    left: u64,
    /// The beginning of a line that is not whole yet.
    line: Vec<u8>,
}

impl LogFile<'_> {
    fn run(&mut self, source: &Source) -> io::Result<()> {
        let (place, mut file) = match source.open() {
            Ok(opened) => opened,
            // Between two steps of a rotation; the runtime is about to open it anew.
            Err(error) if error.kind() == io::ErrorKind::NotFound && (source.is_running)() => {
                std::thread::sleep(POLL);
                source.open()?
            }
            Err(error) => return Err(error),
        };
        match self.query.tail_lines {
            Some(lines) => {
                let from = tail_start(&mut file, lines, self.query.stream)?;
                let missing = from.missing;
                if missing > 0 {
                    self.older(&place, Some(missing))?;
                }
                file.seek(SeekFrom::Start(from.offset))?;
            }
            None => self.older(&place, None)?,
        }
        self.drain(&mut file)?;
        if !self.query.follow {
            return self.finish();
        }
        loop {
            let running = (source.is_running)();
            let read = self.drain(&mut file)?;
            if let Some(next) = source.replaced(&file) {
                // All of the old one has been read: what comes goes to the new one.
                self.drain(&mut file)?;
                file = next;
                continue;
            }
            if file.metadata()?.len() < file.stream_position()? {
                file.seek(SeekFrom::Start(0))?;
            }
            if !running && !read {
                return self.finish();
            }
            if self.out.is_closed() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if !read {
                std::thread::sleep(POLL);
            }
        }
    }

    /// Reads the parts that were rotated away; all, or the last lines of the newest of them.
    fn older(&mut self, place: &LogPlace, last: Option<u64>) -> io::Result<()> {
        let mut parts = rotated(place)?;
        let Some(lines) = last else {
            for part in parts {
                let mut reader = open_part(place, &part)?;
                self.drain(&mut reader)?;
                self.finish()?;
            }
            return Ok(());
        };
        // From the newest back, until there are enough; they are bounded in size by rotation.
        let mut kept: VecDeque<Vec<u8>> = VecDeque::new();
        while let Some(part) = parts.pop() {
            let text = orlop_disk::read_start(open_part(place, &part)?, LONGEST_PART)?;
            for line in text.split_inclusive(|byte| *byte == b'\n').rev() {
                kept.push_front(line.to_vec());
                let whole = kept.iter().filter(|l| self.is_counted(l)).count() as u64;
                if whole >= lines {
                    break;
                }
            }
            if kept.iter().filter(|l| self.is_counted(l)).count() as u64 >= lines {
                break;
            }
        }
        for line in kept {
            self.entry(&line)?;
        }
        Ok(())
    }

    fn is_counted(&self, line: &[u8]) -> bool {
        Line::parse(line).is_ok_and(|line| {
            let entry = line.entry();
            !entry.partial
                && self
                    .query
                    .stream
                    .is_none_or(|stream| stream == entry.stream)
        })
    }

    /// Reads to the end; says whether there was anything.
    fn drain(&mut self, from: &mut dyn Read) -> io::Result<bool> {
        let mut any = false;
        let mut buffer = vec![0; PART];
        loop {
            let n = from.read(&mut buffer)?;
            if n == 0 {
                return Ok(any);
            }
            any = true;
            let mut rest = &buffer[..n];
            while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                self.line.extend_from_slice(&rest[..=at]);
                rest = &rest[at + 1..];
                let line = std::mem::take(&mut self.line);
                self.entry(&line)?;
            }
            self.line.extend_from_slice(rest);
            if self.line.len() > 4 << 20 {
                // No runtime writes such lines.
                self.line.clear();
            }
        }
    }

    /// Passes on what stands at the end without a line's end.
    fn finish(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            Ok(())
        } else {
            self.entry(&line)
        }
    }

    fn entry(&mut self, line: &[u8]) -> io::Result<()> {
        let Ok(line) = Line::parse(line) else {
            return Ok(());
        };
        let entry = line.entry();
        if self
            .query
            .stream
            .is_some_and(|stream| stream != entry.stream)
        {
            return Ok(());
        }
        if let Some(since) = self.query.since
            && parse_time(entry.time).is_some_and(|time| time < since)
        {
            return Ok(());
        }
        let mut text = Vec::with_capacity(entry.content.len());
        if self.query.timestamps {
            text.extend_from_slice(entry.time.as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(entry.content);
        if !entry.partial && !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        let length = text
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        text.truncate(length);
        self.left -= length as u64;
        let sent = self.out.blocking_send(Ok(text.into()));
        if sent.is_err() || self.left == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }
}

fn parse_time(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok().map(Timestamp)
}

struct TailStart {
    offset: u64,
    /// Lines that are not in this file.
    missing: u64,
}

/// Where the last lines begin. Read in blocks from the end.
fn tail_start(file: &mut File, lines: u64, stream: Option<Stream>) -> io::Result<TailStart> {
    let end = file.metadata()?.len();
    if lines == 0 {
        return Ok(TailStart {
            offset: end,
            missing: 0,
        });
    }
    let mut found = 0;
    // What ends without a line end counts as a line, in each stream.
    let mut open = [true, true];
    let mut counts = |line: &[u8]| {
        let Ok(line) = Line::parse(line) else {
            return false;
        };
        let entry = line.entry();
        if stream.is_some_and(|stream| stream != entry.stream) {
            return false;
        }
        let open = &mut open[usize::from(entry.stream == Stream::Stderr)];
        std::mem::take(open) || !entry.partial
    };
    let mut position = end;
    let mut tail: Vec<u8> = Vec::new();
    while position > 0 {
        let step = (PART as u64).min(position);
        position -= step;
        let mut block = vec![0; step as usize];
        file.seek(SeekFrom::Start(position))?;
        file.read_exact(&mut block)?;
        block.append(&mut tail);
        tail = block;
        // Lines whose beginning is in sight, from the last to the first.
        let mut until = tail.len();
        while let Some(at) = tail[..until.saturating_sub(1)]
            .iter()
            .rposition(|b| *b == b'\n')
        {
            found += u64::from(counts(&tail[at + 1..until]));
            if found > lines {
                return Ok(TailStart {
                    offset: position + until as u64,
                    missing: 0,
                });
            }
            until = at + 1;
        }
        tail.truncate(until);
    }
    found += u64::from(counts(&tail));
    if found > lines {
        return Ok(TailStart {
            offset: tail.len() as u64,
            missing: 0,
        });
    }
    Ok(TailStart {
        offset: 0,
        missing: lines - found,
    })
}

/// The parts that were rotated away, the oldest first.
fn rotated(place: &LogPlace) -> io::Result<Vec<OsString>> {
    let mut parts = place.parts()?;
    parts.retain(|name| !name.as_encoded_bytes().ends_with(b".tmp"));
    Ok(parts)
}

fn open_part(place: &LogPlace, name: &OsStr) -> io::Result<Box<dyn Read>> {
    let file = place.read_part(name)?;
    Ok(if name.as_encoded_bytes().ends_with(b".gz") {
        Box::new(GzDecoder::new(file))
    } else {
        Box::new(file)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::mpsc;

    use super::*;

    const ID: &str = "0123456789abcdef";

    fn write(path: &Path, lines: &[&str]) {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        for line in lines {
            writeln!(file, "2026-01-02T03:04:05.000000006Z {line}").unwrap();
        }
    }

    fn all(path: &Path, query: &LogQuery) -> String {
        let (out, mut parts) = mpsc::channel(1000);
        let source = Source {
            id: ID.to_owned(),
            path: path.to_owned(),
            is_running: Box::new(|| false),
        };
        read(&source, query, &out);
        drop(out);
        let mut text = String::new();
        while let Ok(part) = parts.try_recv() {
            text.push_str(std::str::from_utf8(&part.unwrap()).unwrap());
        }
        text
    }

    #[test]
    fn what_is_asked_for_comes() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        write(
            &dir.path().join("0.log.20260101-000000"),
            &["stdout F old1", "stdout F old2"],
        );
        write(
            &log,
            &[
                "stdout F a",
                "stderr F b",
                "stdout P c",
                "stdout F d",
                "garbage",
            ],
        );
        let query = LogQuery::default();
        assert_eq!(all(&log, &query), "old1\nold2\na\nb\ncd\n");
        let tail = |n| LogQuery {
            tail_lines: Some(n),
            ..LogQuery::default()
        };
        assert_eq!(all(&log, &tail(0)), "");
        assert_eq!(all(&log, &tail(1)), "cd\n");
        assert_eq!(all(&log, &tail(2)), "b\ncd\n");
        assert_eq!(all(&log, &tail(4)), "old2\na\nb\ncd\n");
        assert_eq!(all(&log, &tail(99)), "old1\nold2\na\nb\ncd\n");
        let errors = LogQuery {
            stream: Some(Stream::Stderr),
            timestamps: true,
            ..LogQuery::default()
        };
        assert_eq!(all(&log, &errors), "2026-01-02T03:04:05.000000006Z b\n");
        let limited = LogQuery {
            limit_bytes: Some(7),
            ..LogQuery::default()
        };
        assert_eq!(all(&log, &limited), "old1\nol");
        let late = LogQuery {
            since: Some(Timestamp::from_secs(4_000_000_000)),
            ..LogQuery::default()
        };
        assert_eq!(all(&log, &late), "");
        let open = dir.path().join("open.log");
        write(&open, &["stdout F a", "stdout F b", "stdout P c"]);
        assert_eq!(all(&open, &query), "a\nb\nc");
        assert_eq!(all(&open, &tail(1)), "c");
        assert_eq!(all(&open, &tail(2)), "b\nc");
        let docker = dir.path().join("docker.log");
        std::fs::write(
            &docker,
            "{\"log\":\"x\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-02T03:04:05Z\"}\n\
             {\"log\":\"in \",\"stream\":\"stderr\",\"time\":\"2026-01-02T03:04:05Z\"}\n\
             {\"log\":\"parts\\n\",\"stream\":\"stderr\",\"time\":\"2026-01-02T03:04:05Z\"}\n",
        )
        .unwrap();
        assert_eq!(all(&docker, &query), "x\nin parts\n");
        assert_eq!(all(&docker, &tail(1)), "in parts\n");
    }

    #[test]
    fn links_that_a_container_left_among_its_logs_tell_nothing() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        write(&outside.join("0.log"), &["stdout F secret"]);
        let own = dir.path().join("pods/pod/app");
        std::fs::create_dir_all(&own).unwrap();
        let log = own.join("0.log");
        let query = LogQuery::default();
        let fails = |log: &Path| {
            let (out, mut parts) = mpsc::channel(10);
            let source = Source {
                id: ID.to_owned(),
                path: log.to_owned(),
                is_running: Box::new(|| false),
            };
            read(&source, &query, &out);
            parts.try_recv().unwrap().is_err()
        };
        symlink(outside.join("0.log"), &log).unwrap();
        assert!(fails(&log), "a link in the log's place");
        symlink(&outside, own.with_file_name("other")).unwrap();
        assert!(fails(&own.with_file_name("other").join("0.log")), "above");
        std::fs::remove_file(&log).unwrap();
        write(&log, &["stdout F own"]);
        symlink(outside.join("0.log"), own.join("0.log.20260101-000000")).unwrap();
        assert_eq!(all(&log, &query), "own\n", "among the parts");
        // Docker's tools link to the engine's own log.
        let engine = dir.path().join("containers").join(ID);
        std::fs::create_dir_all(&engine).unwrap();
        let json = engine.join(format!("{ID}-json.log"));
        write(&json, &["stdout F engine's"]);
        std::fs::remove_file(&log).unwrap();
        symlink(&json, &log).unwrap();
        assert_eq!(all(&log, &query), "engine's\n");
    }

    #[test]
    fn following_goes_on_over_a_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        write(&log, &["stdout F one"]);
        let running = Arc::new(AtomicBool::new(true));
        let (out, mut parts) = mpsc::channel(10);
        let source = Source {
            id: ID.to_owned(),
            path: log.clone(),
            is_running: Box::new({
                let running = running.clone();
                move || running.load(Ordering::Relaxed)
            }),
        };
        let query = LogQuery {
            follow: true,
            ..LogQuery::default()
        };
        let reader = std::thread::spawn(move || read(&source, &query, &out));
        let mut next = || parts.blocking_recv().unwrap().unwrap();
        assert_eq!(next(), "one\n");
        write(&log, &["stdout F two"]);
        assert_eq!(next(), "two\n");
        std::fs::rename(&log, dir.path().join("0.log.20260101-000000")).unwrap();
        write(&log, &["stdout F three"]);
        assert_eq!(next(), "three\n");
        running.store(false, Ordering::Relaxed);
        reader.join().unwrap();
        assert!(parts.blocking_recv().is_none());
    }
}
