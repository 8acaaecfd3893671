//! `logs`: the log of a container, read from its file on this machine.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use jiff::Timestamp;
use orlop_cri::client::RuntimeClient;
use orlop_cri::log::{Entry, Stream};
use orlop_cri::v1::{ContainerState, ContainerStatus};

use super::flags::Span;
use super::select;
use super::session::Session;

/// How often a followed log is looked at, and how often its container.
const GLANCE: Duration = Duration::from_millis(100);
const GLANCES_PER_STATUS: u32 = 10;

/// Longer lines than any runtime writes are cut into several, lest a log without lines fills
/// the memory.
const LONGEST_LINE: usize = 1 << 20;

/// Which log, and which part of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The container
    #[arg(value_name = "CONTAINER")]
    container: String,

    /// Go on while the container runs
    #[arg(short, long)]
    follow: bool,

    /// The log of the container before this one in the same pod
    #[arg(short, long)]
    previous: bool,

    /// Have the runtime open the log anew first
    #[arg(short, long)]
    reopen: bool,

    /// Only so many lines from the end
    #[arg(long, value_name = "LINES", allow_negative_numbers = true, default_value_t = -1)]
    tail: i64,

    /// Only so many bytes
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, default_value_t = -1)]
    limit_bytes: i64,

    /// Only what was written since: 42m, 2026-01-02T13:23:37, or seconds since the epoch
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Show when each line was written
    #[arg(short, long)]
    timestamps: bool,

    /// Only stdout or stderr
    #[arg(short, long, value_parser = ["stdout", "stderr"], conflicts_with = "tail")]
    stream: Option<String>,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let since = args.since.as_deref().map(moment).transpose()?;
    let client = session.runtime().await?;
    let id = select::container(&client, &args.container).await?;
    if args.reopen {
        client
            .reopen_container_log(&id)
            .await
            .context("cannot have the log opened anew")?;
        eprintln!("the log is opened anew");
    }
    let status = client
        .container_status(&id, false)
        .await?
        .status
        .unwrap_or_default();
    let path = log_path(&status, args.previous)?;
    let only = match args.stream.as_deref() {
        Some("stdout") => Some(Stream::Stdout),
        Some(_) => Some(Stream::Stderr),
        None => None,
    };
    let mut printer = Printer {
        since: since.map(|since| since.to_string()),
        only,
        timestamps: args.timestamps,
        left: u64::try_from(args.limit_bytes).ok(),
        begin: [true; 2],
    };
    let mut log = Log::open(&path)?;
    if let Ok(lines) = u64::try_from(args.tail) {
        log.seek_tail(lines)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    let follow = args.follow && !args.previous;
    follow_log(&mut log, &mut printer, follow.then_some((&client, &id))).await
}

/// Where the log is.
fn log_path(status: &ContainerStatus, previous: bool) -> anyhow::Result<PathBuf> {
    if status.log_path.is_empty() {
        bail!("the container has no log");
    }
    let path = PathBuf::from(&status.log_path);
    if !previous {
        return Ok(path);
    }
    let metadata = status.metadata.clone().unwrap_or_default();
    let Some(attempt) = metadata.attempt.checked_sub(1) else {
        bail!("there was no container {} before this one", metadata.name);
    };
    // The kubelet names logs by attempt.
    Ok(path.with_file_name(format!("{attempt}.log")))
}

/// Prints until the end; with a container, until it has ended and all is printed.
async fn follow_log(
    log: &mut Log,
    printer: &mut Printer,
    container: Option<(&RuntimeClient, &String)>,
) -> anyhow::Result<()> {
    let mut glances = 0;
    let mut ended = false;
    loop {
        let more = {
            let mut out = super::output::stdout();
            let more = printer.all(log, &mut out)?;
            out.flush()?;
            more
        };
        let Some((client, id)) = container else {
            return Ok(());
        };
        if !more || ended {
            return Ok(());
        }
        tokio::time::sleep(GLANCE).await;
        glances += 1;
        if log.follow_rotation()? {
            continue;
        }
        if glances % GLANCES_PER_STATUS == 0 {
            // One more reading after the end: the last lines may be written while we ask.
            ended = !runs(client, id).await;
        }
    }
}

/// Whether more may come. A runtime that doesn't answer may be about to be restarted, its
/// containers running on.
async fn runs(client: &RuntimeClient, id: &str) -> bool {
    match client.container_status(id, false).await {
        Ok(answer) => {
            let status = answer.status.unwrap_or_default();
            status.state() != ContainerState::ContainerExited
        }
        Err(error) => !error.is_not_found(),
    }
}

/// A log file that may be rotated while it is read.
struct Log {
    path: PathBuf,
    reader: BufReader<File>,
    /// A line whose end has not been written yet.
    unfinished: Vec<u8>,
}

impl Log {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let file =
            File::open(path).with_context(|| format!("cannot open the log {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::new(file),
            unfinished: Vec::new(),
        })
    }

    /// The next whole line.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(None);
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            self.unfinished.extend_from_slice(&buffer[..taken]);
            self.reader.consume(taken);
            if end.is_some() || self.unfinished.len() > LONGEST_LINE {
                return Ok(Some(std::mem::take(&mut self.unfinished)));
            }
        }
    }

    /// Goes to where the last `lines` whole lines begin.
    fn seek_tail(&mut self, lines: u64) -> anyhow::Result<()> {
        let mut begins = std::collections::VecDeque::new();
        let mut position = 0;
        let mut begin = 0;
        while let Some(line) = self.line()? {
            position += line.len() as u64;
            if Entry::parse(&line).is_ok_and(|entry| entry.partial) {
                continue;
            }
            begins.push_back(begin);
            if begins.len() as u64 > lines {
                begins.pop_front();
            }
            begin = position;
        }
        self.unfinished.clear();
        let start = begins
            .front()
            .copied()
            .filter(|_| lines > 0)
            .unwrap_or(begin);
        self.reader.seek(io::SeekFrom::Start(start))?;
        Ok(())
    }

    /// Opens the file that took the place of this one; `false` if none did.
    fn follow_rotation(&mut self) -> anyhow::Result<bool> {
        let Ok(there) = std::fs::metadata(&self.path) else {
            return Ok(false);
        };
        let here = self.reader.get_ref().metadata()?;
        if (there.dev(), there.ino()) == (here.dev(), here.ino()) {
            if there.len() < self.reader.stream_position()? {
                self.reader.rewind()?;
                return Ok(true);
            }
            return Ok(false);
        }
        // The old file may have got lines since it was read last.
        if !self.reader.fill_buf()?.is_empty() {
            return Ok(true);
        }
        *self = Self::open(&self.path)?;
        Ok(true)
    }
}

/// Prints entries as the process wrote them.
struct Printer {
    /// In RFC 3339, UTC.
    since: Option<String>,
    only: Option<Stream>,
    timestamps: bool,
    /// Bytes that may still be printed.
    left: Option<u64>,
    /// Whether the next entry begins a line, for each stream.
    begin: [bool; 2],
}

impl Printer {
    /// Prints what there is; `false` when no more may be printed.
    fn all(&mut self, log: &mut Log, out: &mut impl Write) -> anyhow::Result<bool> {
        while let Some(line) = log.line().context("cannot read the log")? {
            match Entry::parse(&line) {
                Ok(entry) => {
                    let mut err = io::stderr().lock();
                    let more = match entry.stream {
                        Stream::Stdout => self.print(&entry, out)?,
                        Stream::Stderr => {
                            // In the order it was written, where both go to one place.
                            out.flush()?;
                            self.print(&entry, &mut err)?
                        }
                    };
                    if !more {
                        return Ok(false);
                    }
                }
                Err(error) => eprintln!("warning: {error}"),
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
        let parsed = |text: &str| text.parse::<Timestamp>().ok();
        match (self.since.as_deref().and_then(parsed), parsed(time)) {
            (Some(since), Some(time)) => time < since,
            _ => false,
        }
    }
}

/// A point in time: so long ago, RFC 3339 with or without offset, a date, or seconds since the
/// epoch.
fn moment(text: &str) -> anyhow::Result<Timestamp> {
    if text.ends_with(|c: char| c.is_ascii_alphabetic())
        && let Ok(Span(ago)) = text.parse()
        && let Some(then) = SystemTime::now().checked_sub(ago)
    {
        return Ok(Timestamp::try_from(then)?);
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(timestamp);
    }
    if let Ok(local) = text.parse::<jiff::civil::DateTime>() {
        return Ok(local.to_zoned(jiff::tz::TimeZone::system())?.timestamp());
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    match (seconds.parse(), format!("{fraction:0<9}").parse()) {
        (Ok(seconds), Ok(nanoseconds)) => Ok(Timestamp::new(seconds, nanoseconds)?),
        _ => {
            bail!("`{text}` is no time: write 42m, 2026-01-02T13:23:37 or seconds since the epoch")
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
        let log = Log::open(&path).unwrap();
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
            since: Some("2026-01-01T00:00:02Z".into()),
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
            log.seek_tail(lines).unwrap();
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

    #[test]
    fn times_are_given_in_many_ways() {
        let zulu: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        assert_eq!(moment("2026-01-02T03:04:05Z").unwrap(), zulu);
        assert_eq!(moment("1767323045").unwrap(), zulu);
        assert_eq!(
            moment("1767323045.5").unwrap().subsec_nanosecond(),
            500_000_000
        );
        assert!(moment("2026-01-02T03:04:05").is_ok() && moment("2026-01-02").is_ok());
        let ago = Timestamp::now().as_second() - moment("42m").unwrap().as_second();
        assert!((2519..=2521).contains(&ago), "{ago}");
        assert!(moment("soon").is_err());
    }

    #[test]
    fn the_log_before_has_the_attempt_before_in_its_name() {
        let status = |attempt| ContainerStatus {
            log_path: "/var/log/pods/p/c/3.log".into(),
            metadata: Some(orlop_cri::v1::ContainerMetadata {
                name: "c".into(),
                attempt,
            }),
            ..Default::default()
        };
        assert_eq!(
            log_path(&status(3), true).unwrap(),
            Path::new("/var/log/pods/p/c/2.log")
        );
        assert_eq!(
            log_path(&status(3), false).unwrap(),
            Path::new("/var/log/pods/p/c/3.log")
        );
        assert!(log_path(&status(0), true).is_err());
        assert!(log_path(&ContainerStatus::default(), false).is_err());
    }
}
