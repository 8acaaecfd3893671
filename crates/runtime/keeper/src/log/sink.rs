//! The log of one container: pending lines, limits, and losses.

use std::fs::File;
use std::io;
use std::io::Write as _;

use memchr::memchr_iter;
use orlop_keeper_protocol::LogPolicy;

use super::file::Place;
use super::lines::Lines;
use super::quota::{Rate, Size};
use super::writer::{Job, Report, Writer};
use crate::clock::{Stamp, now_ns};
use crate::connection::ReplyTo;
use crate::reactor::Stream;
use crate::sys::heap;

/// Maximum number of bytes that wait for a slow disk before the policy applies.
const BUFFER_MAX: usize = 1 << 20;

/// From this size on, a buffer that is no longer needed is returned to the kernel at once.
const LARGE: usize = 32 << 10;

/// A container's log.
#[derive(Debug)]
pub(crate) struct Log {
    place: Place,
    policy: LogPolicy,
    rate: Rate,
    size: Size,
    out: Lines,
    err: Lines,
    stamp: Stamp,
    waiting: Vec<u8>,
    /// The buffer of the last job, reused by the next one during heavy writing.
    spare: Vec<u8>,
    /// `None` while a job is under way.
    file: Option<File>,
    /// Requests that wait for the next reopening, and those that wait for the one in progress.
    reopen: Vec<ReplyTo>,
    reopening: Vec<ReplyTo>,
    loss: Option<Loss>,
    /// Whether a note on losses must be written although no line is pending.
    last_note: bool,
    /// Whether the file ends in an unfinished line.
    torn: bool,
    /// The length of the note on losses at the start of the current job.
    note: usize,
    /// The bytes and lines counted in that note.
    noted: (u64, u64),
    dropped: u64,
}

/// Output lost in one period.
#[derive(Debug)]
struct Loss {
    bytes: u64,
    lines: u64,
    reason: String,
    told: bool,
    /// Whether the loss lasts until a new file is opened: it is noted then, or when the output ends.
    lasting: bool,
}

/// Results of a finished job for other parts of the keeper.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// The requests for a reopening, and its result.
    pub(crate) reopened: Vec<(ReplyTo, Result<(), String>)>,
    /// The total loss so far and its reason, if it has changed.
    pub(crate) dropped: Option<(u64, String)>,
}

impl Log {
    /// Opens the log of a container that is about to be created.
    pub(crate) fn open(place: Place, policy: LogPolicy, line_max: usize) -> io::Result<Self> {
        let file = place.open()?;
        Ok(Self {
            place,
            policy,
            rate: Rate::default(),
            size: Size::default(),
            out: Lines::new(Stream::Out, line_max),
            err: Lines::new(Stream::Err, line_max),
            stamp: Stamp::default(),
            waiting: Vec::new(),
            spare: Vec::new(),
            file: Some(file),
            reopen: Vec::new(),
            reopening: Vec::new(),
            loss: None,
            last_note: false,
            torn: false,
            note: 0,
            noted: (0, 0),
            dropped: 0,
        })
    }

    /// Sets the limit of log bytes per second; zero for no limit. Output beyond it is dropped.
    pub(crate) fn limit_rate(&mut self, bytes: u32) {
        self.rate.limit = bytes as usize;
    }

    /// Sets the limit of bytes in one file, until it is reopened; zero for no limit. Output beyond it is dropped.
    pub(crate) fn limit_size(&mut self, bytes: u64) {
        self.size.limit = bytes;
        let metadata = self.file.as_ref().map(File::metadata);
        if let Some(Ok(metadata)) = metadata {
            self.size.found(metadata.len());
        }
    }

    /// Returns whether more output may be read.
    pub(crate) fn has_room(&self) -> bool {
        self.policy == LogPolicy::Drop || self.waiting.len() < BUFFER_MAX
    }

    /// Returns whether all output is in the file.
    pub(crate) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.file.is_some() && !self.last_note
    }

    /// Returns the total number of lost bytes.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped + self.loss.as_ref().map_or(0, |loss| loss.bytes)
    }

    /// Adds output of a stream.
    pub(crate) fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        let before = self.waiting.len();
        let lines = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        let now = now_ns();
        lines.feed(bytes, now, &mut self.stamp, &mut self.waiting);
        self.bound(before, now);
    }

    /// Ends a stream.
    pub(crate) fn finish(&mut self, stream: Stream) {
        let before = self.waiting.len();
        let lines = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        let now = now_ns();
        lines.finish(now, &mut self.stamp, &mut self.waiting);
        self.bound(before, now);
        self.last_note = self.loss.is_some();
    }

    /// Requests that the file is reopened once all output so far is in the old one.
    pub(crate) fn reopen(&mut self, reply_to: ReplyTo) {
        self.reopen.push(reply_to);
    }

    /// Hands pending lines to the writer, unless it is already working on this log.
    pub(crate) fn pump(&mut self, key: u64, writer: &Writer) {
        if self.waiting.is_empty() && self.reopen.is_empty() && !self.last_note {
            return;
        }
        let Some(file) = self.file.take() else {
            return;
        };
        let noting = std::mem::take(&mut self.last_note) || !self.reopen.is_empty();
        let mut data = std::mem::replace(&mut self.waiting, std::mem::take(&mut self.spare));
        self.note = 0;
        if let Some(loss) = self.loss.as_ref().filter(|loss| noting || !loss.lasting) {
            let mut note = Vec::new();
            if self.torn {
                note.push(b'\n');
            }
            self.stamp.write(now_ns(), &mut note);
            let _ = writeln!(
                note,
                " stderr F [orlop: {} bytes of output ({} lines) were lost: {}]",
                loss.bytes, loss.lines, loss.reason
            );
            self.note = note.len();
            self.noted = (loss.bytes, loss.lines);
            data.splice(0..0, note);
        }
        self.reopening = std::mem::take(&mut self.reopen);
        if !self.reopening.is_empty() {
            self.size.turn_over();
        }
        let job = Job {
            key,
            file,
            data,
            reopen: (!self.reopening.is_empty()).then(|| self.place.clone()),
        };
        if let Err(job) = writer.submit(job) {
            // Only if the thread has panicked.
            self.file = Some(job.file);
            self.lose(&job.data[self.note..], "the log writer has stopped");
        }
    }

    /// Takes the result of a job back from the writer.
    pub(crate) fn settle(&mut self, report: Report) -> Settled {
        let Report {
            file,
            data,
            written,
            error,
            reopened,
            ..
        } = report;
        self.file = Some(file);
        let mut settled = Settled::default();
        if written > 0 {
            self.torn = data[written - 1] != b'\n';
        }
        let large = data.capacity() > LARGE;
        if self.note > 0 && written >= self.note {
            // The note is in the file: the period of loss is over, unless more was lost meanwhile.
            if let Some(mut loss) = self.loss.take() {
                let (bytes, lines) = self.noted;
                self.dropped += bytes;
                settled.dropped = Some((self.dropped, "the log is writable again".into()));
                (loss.bytes, loss.lines) = (loss.bytes - bytes, loss.lines - lines);
                loss.told = false;
                self.loss = Some(loss).filter(|loss| loss.bytes > 0);
            }
        }
        match &reopened {
            None => {}
            Some(Ok(length)) => self.size.found(*length),
            Some(Err(_)) => self.size.turn_back(),
        }
        if let Some(error) = error {
            let lost = &data[written.max(self.note)..];
            if !matches!(reopened, Some(Ok(_))) {
                self.size.give_back(lost.len());
            }
            self.lose(lost, &error.to_string());
        }
        let total = self.dropped();
        if let Some(loss) = self.loss.as_mut().filter(|loss| !loss.told) {
            loss.told = true;
            settled.dropped = Some((total, loss.reason.clone()));
        }
        if !self.waiting.is_empty() {
            self.spare = data;
            self.spare.clear();
        } else if large {
            drop(data);
            self.waiting = Vec::new();
            heap::trim();
        }
        if let Some(result) = reopened {
            let result = result.map(drop).map_err(|error| {
                format!("cannot reopen log {}: {error}", self.place.path().display())
            });
            if result.is_ok() {
                self.torn = false;
            }
            let waiting = self.reopening.drain(..);
            settled.reopened = waiting.map(|who| (who, result.clone())).collect();
        }
        settled
    }

    /// Drops the newest lines if they exceed a limit.
    fn bound(&mut self, before: usize, now: u64) {
        let new = &self.waiting[before..];
        let kept = self.rate.admit(new, now);
        if kept < new.len() {
            let surplus = self.waiting.split_off(before + kept);
            let limit = self.rate.limit;
            let reason = format!("more than {limit} bytes per second (containers.log_rate)");
            self.lose(&surplus, &reason);
        }
        let new = &self.waiting[before..];
        let kept = self.size.admit(new);
        if kept < new.len() {
            let surplus = self.waiting.split_off(before + kept);
            let limit = self.size.limit;
            let reason = format!(
                "more than {limit} bytes in a file that is not rotated (containers.log_size)"
            );
            // The first lost line writes the note on why the log ends.
            self.last_note |= !self.size.noted();
            self.lose(&surplus, &reason);
            if let Some(loss) = &mut self.loss {
                loss.lasting = true;
            }
        }
        if self.policy == LogPolicy::Drop && self.waiting.len() > BUFFER_MAX {
            let surplus = self.waiting.split_off(before);
            self.size.give_back(surplus.len());
            self.lose(&surplus, "the disk is too slow");
        }
    }

    fn lose(&mut self, lines: &[u8], reason: &str) {
        let loss = self.loss.get_or_insert_with(|| Loss {
            bytes: 0,
            lines: 0,
            reason: String::new(),
            told: false,
            lasting: false,
        });
        loss.bytes += lines.len() as u64;
        loss.lines += memchr_iter(b'\n', lines).count() as u64;
        reason.clone_into(&mut loss.reason);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use orlop_keeper_protocol::LogPolicy;

    use super::{Log, Place, Settled, Writer};
    use crate::reactor::Stream;

    fn write(log: &mut Log, writer: &Writer, text: &str) -> Settled {
        log.feed(Stream::Out, text.as_bytes());
        log.pump(1, writer);
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            if let Some(report) = writer.report() {
                return log.settle(report);
            }
            assert!(Instant::now() < end, "the writer is silent");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_full_disk_is_survived_and_noted() {
        let (writer, _wake) = Writer::start().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut log = Log::open(place(&path), LogPolicy::Block, 0).unwrap();
        assert!(write(&mut log, &writer, "before\n").dropped.is_none());

        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let disk = log.file.replace(full);
        let told = write(&mut log, &writer, "lost\n").dropped;
        assert!(told.unwrap().1.contains("No space left"));
        assert!(write(&mut log, &writer, "lost too\n").dropped.is_none());

        log.file = disk;
        assert!(write(&mut log, &writer, "after\n").dropped.is_some());
        let text = std::fs::read_to_string(path).unwrap();
        let contents: Vec<&str> = text.lines().map(|line| &line[31..]).collect();
        assert_eq!(contents[0], "stdout F before");
        assert!(contents[1].starts_with("stderr F [orlop: "), "{text}");
        assert!(
            contents[1].contains("(2 lines) were lost: No space left"),
            "{text}"
        );
        assert_eq!(contents[2..], ["stdout F after"]);
    }

    /// Returns a log whose disk is a pipe that nobody reads yet.
    fn stuck(policy: LogPolicy) -> (Log, std::io::PipeReader, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(place(&dir.path().join("0.log")), policy, 0).unwrap();
        let (disk, file) = std::io::pipe().unwrap();
        log.file = Some(std::os::fd::OwnedFd::from(file).into());
        (log, disk, dir)
    }

    fn all_lines(
        mut log: Log,
        mut disk: std::io::PipeReader,
        writer: &Writer,
    ) -> (Log, Vec<String>) {
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut disk, &mut text).unwrap();
            text
        });
        while !log.is_settled() {
            if let Some(report) = writer.report() {
                log.settle(report);
                log.pump(1, writer);
            }
        }
        log.file = None;
        let text = reader.join().unwrap();
        (
            log,
            text.lines().map(|line| line[31..].to_owned()).collect(),
        )
    }

    #[test]
    fn a_stuck_disk_holds_up_the_container_only_when_the_buffer_is_full() {
        let (writer, _wake) = Writer::start().unwrap();
        let (mut log, disk, _dir) = stuck(LogPolicy::Block);
        let mut fed = 0;
        while log.has_room() {
            log.feed(
                Stream::Out,
                format!("line {fed} {}\n", "x".repeat(1000)).as_bytes(),
            );
            log.pump(1, &writer);
            fed += 1;
        }
        assert!(fed > 900 && !log.is_settled(), "{fed}");
        let (log, lines) = all_lines(log, disk, &writer);
        assert_eq!(lines.len(), fed);
        assert!(lines[fed - 1].starts_with(&format!("stdout F line {} ", fed - 1)));
        assert_eq!(log.dropped(), 0);
    }

    #[test]
    fn a_stuck_disk_costs_lines_if_the_container_must_not_wait() {
        let (writer, _wake) = Writer::start().unwrap();
        let (mut log, disk, _dir) = stuck(LogPolicy::Drop);
        for number in 0..2000 {
            log.feed(
                Stream::Out,
                format!("line {number} {}\n", "x".repeat(1000)).as_bytes(),
            );
            log.pump(1, &writer);
            assert!(log.has_room());
        }
        assert!(log.dropped() > 500_000, "{}", log.dropped());
        let (log, mut lines) = all_lines(log, disk, &writer);
        lines.retain(|line| line.starts_with("stderr"));
        assert_eq!(lines.len(), 1);
        let note = format!("stderr F [orlop: {} bytes of output (", log.dropped());
        assert!(lines[0].starts_with(&note) && lines[0].ends_with("the disk is too slow]"));
    }

    #[test]
    fn what_is_no_regular_file_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        std::fs::write(&target, "").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for path in [link, dir.path().to_owned(), "/dev/null".into()] {
            assert!(Log::open(place(&path), LogPolicy::Block, 0).is_err());
        }
    }

    #[test]
    fn a_link_on_the_way_to_a_log_leads_nowhere_and_one_to_the_logs_does() {
        let dir = tempfile::tempdir().unwrap();
        let (logs, foreign) = (dir.path().join("logs"), dir.path().join("foreign"));
        std::fs::create_dir_all(logs.join("real")).unwrap();
        std::fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::symlink(&foreign, logs.join("fake")).unwrap();
        std::os::unix::fs::symlink(&logs, dir.path().join("chosen")).unwrap();
        for chosen in [&logs, &dir.path().join("chosen")] {
            let open = |name: &str| {
                let place = Place::new(&chosen.join(name), chosen).unwrap();
                Log::open(place, LogPolicy::Block, 0)
            };
            assert!(open("real/0.log").is_ok());
            assert!(open("fake/0.log").is_err());
            assert!(open("../foreign/0.log").is_err());
        }
        assert!(Place::new(&foreign.join("0.log"), &logs).is_err());
        assert!(std::fs::read_dir(foreign).unwrap().next().is_none());
    }

    fn place(path: &std::path::Path) -> Place {
        Place::new(path, std::path::Path::new("")).unwrap()
    }

    #[test]
    fn a_container_that_prints_too_much_finds_the_loss_noted_at_its_end() {
        let (writer, _wake) = Writer::start().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut log = Log::open(place(&path), LogPolicy::Block, 0).unwrap();
        // Every line is longer than this.
        log.limit_rate(8);
        for _ in 0..3 {
            log.feed(Stream::Out, b"much too much\n");
            log.pump(1, &writer);
            assert!(log.has_room() && log.is_settled());
        }
        assert!(log.dropped() > 0);
        log.finish(Stream::Out);
        assert!(!log.is_settled());
        log.pump(1, &writer);
        let end = Instant::now() + Duration::from_secs(20);
        while !log.is_settled() {
            assert!(Instant::now() < end, "the writer is silent");
            if let Some(report) = writer.report() {
                assert!(log.settle(report).dropped.is_some());
            }
        }
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("(3 lines) were lost: more than 8 bytes per second"));
    }
}
