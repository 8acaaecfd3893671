//! Reads a container's log, as `kubectl logs` asks for it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use orlop_cri_api::log::{Line, Stream};
use orlop_fs::LogPlace;
use orlop_kubelet_rules::Timestamp;
use tokio::sync::mpsc::Sender;

use super::lines::{Lines, TailStart, tail_start};
use super::parts::{Parts, names, open};
use super::query::LogQuery;
use crate::error::RequestError;

/// How often a followed log is polled.
const POLL: Duration = Duration::from_millis(200);
/// How many bytes of one part are read for its last lines; rotation keeps parts far smaller.
const LONGEST_PART: u64 = 256 << 20;

/// A log, and a check whether its container still writes to it.
pub(crate) struct Source {
    /// The container's id.
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

    /// Opens the file that has replaced `file` at the log's path, if any.
    fn replaced(&self, file: &File) -> Option<File> {
        let own = file.metadata().ok()?;
        let (_, there) = self.open().ok()?;
        let meta = there.metadata().ok()?;
        ((own.dev(), own.ino()) != (meta.dev(), meta.ino())).then_some(there)
    }
}

/// Reads a log and sends it to `out`. Blocks; ends early when the receiver is dropped.
pub(crate) fn read(source: &Source, query: &LogQuery, out: &Sender<Result<Bytes, RequestError>>) {
    let fail = |source_error: io::Error| RequestError::Log {
        path: source.path.clone(),
        source: source_error,
    };
    let mut reader = LogFile {
        query,
        out,
        left: query.limit_bytes.unwrap_or(u64::MAX),
        lines: Lines::default(),
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
    lines: Lines,
}

impl LogFile<'_> {
    fn run(&mut self, source: &Source) -> io::Result<()> {
        let (place, mut file) = match source.open() {
            Ok(opened) => opened,
            // Rotation is between two steps; the runtime is about to reopen the log.
            Err(error) if error.kind() == io::ErrorKind::NotFound && (source.is_running)() => {
                std::thread::sleep(POLL);
                source.open()?
            }
            Err(error) => return Err(error),
        };
        if let Some(lines) = self.query.tail_lines {
            let from = self.tail_start(&file, lines)?;
            if from.missing > 0 {
                self.last_of_older(&place, &file, from.missing)?;
            }
            file.seek(SeekFrom::Start(from.offset))?;
        } else {
            let mut parts = Parts::beside(&place, &file)?;
            while let Some(mut part) = parts.next()? {
                self.drain(&mut part)?;
                self.finish()?;
            }
        }
        self.drain(&mut file)?;
        if !self.query.follow {
            return self.finish();
        }
        loop {
            let running = (source.is_running)();
            let read = self.drain(&mut file)?;
            if let Some(next) = source.replaced(&file) {
                // Read the rest of the old file; new lines go to the new one.
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
            check(self.out)?;
            if !read {
                std::thread::sleep(POLL);
            }
        }
    }

    /// Reads the last lines of the parts that were rotated away.
    fn last_of_older(&mut self, place: &LogPlace, present: &File, lines: u64) -> io::Result<()> {
        // From the newest part back, until there are enough lines. Reading twice costs less than
        // buffering a whole log.
        let mut wanted = Vec::new();
        let mut found = 0;
        for part in names(place)?.into_iter().rev() {
            if found >= lines {
                break;
            }
            let Some(reader) = open(place, &part, present)? else {
                continue;
            };
            let counted = self.count(reader)?;
            found += counted;
            wanted.push((part, counted));
        }
        let mut skipped = found.saturating_sub(lines);
        for (part, counted) in wanted.into_iter().rev() {
            let Some(reader) = open(place, &part, present)? else {
                // Rotation removes only the oldest part: no line of the others is skipped instead.
                skipped = skipped.saturating_sub(counted);
                continue;
            };
            self.each_line(&mut reader.take(LONGEST_PART), &mut |this, line| {
                if skipped == 0 {
                    return this.entry(line);
                }
                skipped -= u64::from(this.is_counted(line));
                Ok(())
            })?;
            // A line does not continue in the next part.
            match self.lines.rest() {
                Some(line) if skipped == 0 => self.entry(&line)?,
                Some(line) => skipped -= u64::from(self.is_counted(&line)),
                None => {}
            }
        }
        Ok(())
    }

    /// Counts the lines of a part.
    fn count(&mut self, part: Box<dyn Read>) -> io::Result<u64> {
        let mut count = 0;
        self.each_line(&mut part.take(LONGEST_PART), &mut |this, line| {
            count += u64::from(this.is_counted(line));
            Ok(())
        })?;
        let rest = self.lines.rest();
        Ok(count + u64::from(rest.is_some_and(|line| self.is_counted(&line))))
    }

    /// Finds where the last lines of a file begin.
    fn tail_start(&self, file: &File, lines: u64) -> io::Result<TailStart> {
        // An unterminated last line counts, for each stream.
        let mut open = [true, true];
        tail_start(file, lines, &|| check(self.out), &mut |line| {
            let Ok(line) = Line::parse(line) else {
                return false;
            };
            let entry = line.entry();
            let stream = self.query.stream;
            if stream.is_some_and(|stream| stream != entry.stream) {
                return false;
            }
            let open = &mut open[usize::from(entry.stream == Stream::Stderr)];
            std::mem::take(open) || !entry.partial
        })
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

    /// Reads to the end; returns whether it read anything.
    fn drain(&mut self, from: &mut dyn Read) -> io::Result<bool> {
        self.each_line(from, &mut Self::entry)
    }

    fn each_line(
        &mut self,
        from: &mut dyn Read,
        each: &mut dyn FnMut(&mut Self, &[u8]) -> io::Result<()>,
    ) -> io::Result<bool> {
        let mut lines = std::mem::take(&mut self.lines);
        let out = self.out;
        let read = lines.read(from, &|| check(out), &mut |line| each(self, line));
        self.lines = lines;
        read
    }

    /// Emits an unterminated last line.
    fn finish(&mut self) -> io::Result<()> {
        match self.lines.rest() {
            Some(line) => self.entry(&line),
            None => Ok(()),
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

/// Fails if the receiver is gone, to stop reading.
fn check(out: &Sender<Result<Bytes, RequestError>>) -> io::Result<()> {
    if out.is_closed() {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
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

    fn logged(lines: impl Iterator<Item = u64>) -> Vec<u8> {
        let mut text = Vec::new();
        for line in lines {
            writeln!(text, "2026-01-02T03:04:05.000000006Z stdout F {line}").unwrap();
        }
        text
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn the_last_lines_of_many_come_in_the_time_that_their_files_take() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        let part = |name: &str| dir.path().join(format!("0.log.{name}"));
        std::fs::write(part("20260101-000000.gz"), packed(&logged(0..100_000))).unwrap();
        std::fs::write(part("20260102-000000"), logged(100_000..200_000)).unwrap();
        // A long run of bytes without a newline.
        let mut last = vec![b'x'; 32 << 20];
        last.push(b'\n');
        last.extend(logged(200_000..200_010));
        std::fs::write(&log, last).unwrap();
        let query = LogQuery {
            tail_lines: Some(150_000),
            ..LogQuery::default()
        };
        let (out, mut parts) = mpsc::channel(1000);
        let source = Source {
            id: ID.to_owned(),
            path: log,
            is_running: Box::new(|| false),
        };
        let start = std::time::Instant::now();
        std::thread::spawn(move || read(&source, &query, &out));
        let mut next = 50_010;
        while let Some(part) = parts.blocking_recv() {
            let text = String::from_utf8(part.unwrap().to_vec()).unwrap();
            assert_eq!(text, format!("{next}\n"));
            next += 1;
        }
        assert_eq!(next, 200_010);
        assert!(start.elapsed() < Duration::from_secs(30) * orlop_testkit::machine::patience());
    }

    #[test]
    fn nothing_is_read_for_who_has_left() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        // None of it is ever sent, so no send fails.
        let file = File::create(&log).unwrap();
        file.set_len(4 << 30).unwrap();
        std::fs::write(dir.path().join("0.log.20260101-000000"), []).unwrap();
        for tail_lines in [None, Some(7)] {
            let query = LogQuery {
                tail_lines,
                ..LogQuery::default()
            };
            let (out, parts) = mpsc::channel(1);
            let source = Source {
                id: ID.to_owned(),
                path: log.clone(),
                is_running: Box::new(|| false),
            };
            let (tell, told) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                read(&source, &query, &out);
                let _ = tell.send(());
            });
            std::thread::sleep(Duration::from_millis(50));
            drop(parts);
            let ended =
                told.recv_timeout(Duration::from_secs(2) * orlop_testkit::machine::patience());
            assert!(ended.is_ok(), "it is read on: {tail_lines:?}");
        }
    }

    #[test]
    fn parts_that_rotation_removes_while_they_are_read_are_read_to_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        let part = |number: usize| dir.path().join(format!("0.log.20260101-00000{number}"));
        for number in 0..3 {
            write(&part(number), &[&*format!("stdout F {number}"); 10]);
        }
        write(&log, &["stdout F now"; 10]);
        let (out, mut parts) = mpsc::channel(1);
        let source = Source {
            id: ID.to_owned(),
            path: log.clone(),
            is_running: Box::new(|| false),
        };
        let reader = std::thread::spawn(move || read(&source, &LogQuery::default(), &out));
        let mut text = parts.blocking_recv().unwrap().unwrap().to_vec();
        // The reader waits for its receiver.
        for number in 0..3 {
            std::fs::remove_file(part(number)).unwrap();
        }
        std::fs::rename(&log, part(3)).unwrap();
        write(&log, &["stdout F later"]);
        while let Some(more) = parts.blocking_recv() {
            text.extend_from_slice(&more.unwrap());
        }
        reader.join().unwrap();
        let lines = |what: &str| format!("{what}\n").repeat(10);
        let expected = ["0", "1", "2", "now"].map(lines).concat();
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn a_part_that_is_just_being_packed_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        let part = dir.path().join("0.log.20260101-000000");
        write(&part, &["stdout F old"]);
        let mut packed = flate2::write::GzEncoder::new(
            File::create(dir.path().join("0.log.20260101-000000.gz")).unwrap(),
            flate2::Compression::fast(),
        );
        io::copy(&mut File::open(&part).unwrap(), &mut packed).unwrap();
        packed.finish().unwrap();
        write(&log, &["stdout F now"]);
        let tail = LogQuery {
            tail_lines: Some(9),
            ..LogQuery::default()
        };
        for query in [LogQuery::default(), tail] {
            assert_eq!(all(&log, &query), "old\nnow\n");
        }
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
        // Docker tooling links to the engine's own log.
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
