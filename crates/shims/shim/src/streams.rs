//! Copying of a process's streams between our own and the shim's, which are FIFOs or streams that the shim serves.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Io;
use crate::background::background;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::fifo::make_fifo;
use crate::process::Process;
use crate::streaming::Stream;
use crate::task::Stdio;
use crate::terminal::Terminal;

/// After a process's exit, its output is read until a pause of this length.
const PAUSE: Duration = Duration::from_millis(200);
/// Time limit for that, if a descendant keeps writing.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);

/// The copying of a process's streams.
pub(crate) struct Streams {
    /// Our own writing ends, so that there is no end of file before the shim opens its ends.
    held: Vec<File>,
    copied: Arc<AtomicU64>,
    outputs: Arc<AtomicUsize>,
}

/// The kind of the shim's ends.
enum Ends<'a> {
    Fifos(PathBuf),
    Streams {
        at: &'a Endpoint,
        /// The common prefix of their names.
        of: String,
    },
}

/// The shim's end of an output, which we read.
enum Output {
    Fifo(File),
    Stream(Stream),
}

enum Input {
    Fifo(File),
    Stream(Stream),
}

impl Streams {
    pub(crate) fn make(
        io: Io,
        process: &Process,
        endpoint: &Endpoint,
        terminal: Option<&Terminal>,
    ) -> Result<(Stdio, Self)> {
        let ends = Ends::of(io, process, endpoint)?;
        let mut streams = Self {
            held: Vec::new(),
            copied: Arc::default(),
            outputs: Arc::default(),
        };
        let mut stdio = Stdio {
            terminal: process.terminal,
            ..Stdio::default()
        };
        let stdin = duplicate(rustix::stdio::stdin())?;
        let (input, output) = match terminal {
            Some(terminal) => (Some(terminal.end()?), terminal.end()?),
            None => (
                is_read(&stdin).then_some(stdin),
                duplicate(rustix::stdio::stdout())?,
            ),
        };
        stdio.stdout = streams.output(&ends, "stdout", output)?;
        if !process.terminal {
            let stderr = duplicate(rustix::stdio::stderr())?;
            stdio.stderr = streams.output(&ends, "stderr", stderr)?;
        }
        if let Some(input) = input {
            stdio.stdin = Self::input(&ends, process, input)?;
        }
        no_streams()?;
        Ok((stdio, streams))
    }

    fn output(&mut self, ends: &Ends<'_>, name: &str, to: OwnedFd) -> Result<String> {
        let from = match ends {
            Ends::Fifos(_) => {
                let fifo = ends.make_fifo(name)?;
                self.held.push(open(&fifo, true)?);
                Output::Fifo(open(&fifo, false)?)
            }
            Ends::Streams { at, .. } => Output::Stream(Stream::open(at, &ends.id(name))?),
        };
        let (copied, outputs) = (self.copied.clone(), self.outputs.clone());
        outputs.fetch_add(1, Ordering::Relaxed);
        background(move || {
            let to = File::from(to);
            match from {
                Output::Fifo(from) => copy(from, &to, &copied),
                Output::Stream(from) => from.give(|bytes| write(&to, bytes, &copied)),
            }
            outputs.fetch_sub(1, Ordering::Release);
        })?;
        Ok(ends.address(name))
    }

    fn input(ends: &Ends<'_>, process: &Process, from: OwnedFd) -> Result<String> {
        const NAME: &str = "stdin";
        let to = match ends {
            // With our own reading end, the FIFO can be opened before the shim opens it.
            Ends::Fifos(_) => Input::Fifo(open(&ends.make_fifo(NAME)?, true)?),
            Ends::Streams { at, .. } => Input::Stream(Stream::open(at, &ends.id(NAME))?),
        };
        let (pod, id) = (process.pod.clone(), process.task.id.clone());
        let exec = process.exec.clone();
        background(move || {
            match to {
                Input::Fifo(to) => copy(File::from(from), &to, &AtomicU64::new(0)),
                Input::Stream(to) => to.take(File::from(from)),
            }
            if let Ok(mut tasks) = pod.tasks() {
                let _ = tasks.close_stdin(&id, &exec);
            }
        })?;
        Ok(ends.address(NAME))
    }

    /// Waits for the remaining output of a process that has exited.
    pub(crate) fn drain(&mut self) {
        self.held.clear();
        let end = Instant::now() + LONGEST_DRAIN;
        let mut last = (self.copied.load(Ordering::Acquire), Instant::now());
        while self.outputs.load(Ordering::Acquire) > 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
            let copied = self.copied.load(Ordering::Acquire);
            if copied != last.0 {
                last = (copied, Instant::now());
            } else if last.1.elapsed() > PAUSE {
                return;
            }
        }
    }
}

impl<'a> Ends<'a> {
    fn of(io: Io, process: &Process, at: &'a Endpoint) -> Result<Self> {
        let Process { task, exec, .. } = process;
        let mut dir = task.dir.clone();
        let mut of = task.id.clone();
        if !exec.is_empty() {
            dir = dir.join(exec);
            of = format!("{of}-{exec}");
        }
        // The supervisor removes the directory with the finished command.
        crate::state_dir::private(&dir)?;
        Ok(match io {
            Io::Fifo => Self::Fifos(dir),
            Io::Streaming => Self::Streams { at, of },
        })
    }

    /// Returns the address of a stream for the shim.
    fn address(&self, name: &str) -> String {
        match self {
            Self::Fifos(dir) => dir.join(name).to_string_lossy().into_owned(),
            Self::Streams { at, .. } => format!("{}?streaming_id={}", at.address(), self.id(name)),
        }
    }

    fn id(&self, name: &str) -> String {
        match self {
            Self::Fifos(_) => name.to_owned(),
            Self::Streams { of, .. } => format!("{of}-{name}"),
        }
    }

    fn make_fifo(&self, name: &str) -> Result<PathBuf> {
        let path = PathBuf::from(self.address(name));
        make_fifo(&path)?;
        Ok(path)
    }
}

fn open(fifo: &Path, write: bool) -> Result<File> {
    let opened = File::options().read(true).write(write).open(fifo);
    opened.map_err(Error::file("opening", fifo))
}

fn copy(mut from: File, to: &File, copied: &AtomicU64) {
    let mut bytes = vec![0; 32 * 1024];
    loop {
        let read = match from.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if !write(to, &bytes[..read], copied) {
            return;
        }
    }
}

/// Writes bytes; `false` if there is no reader any more.
fn write(mut to: &File, bytes: &[u8], copied: &AtomicU64) -> bool {
    let written = to.write_all(bytes);
    copied.fetch_add(bytes.len() as u64, Ordering::Release);
    written.is_ok()
}

/// Whether a standard input should be read: not if it is /dev/null.
fn is_read(stdin: &OwnedFd) -> bool {
    let null = rustix::fs::stat("/dev/null").map(|null| null.st_rdev);
    match (rustix::fs::fstat(stdin), null) {
        (Ok(stat), Ok(null)) => stat.st_rdev != null,
        _ => false,
    }
}

fn duplicate(fd: impl AsFd) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|errno| Error::Io {
        doing: "duplicating the standard streams".into(),
        source: errno.into(),
    })
}

/// Closes our standard streams, which would keep their readers waiting after the process's exit.
pub(crate) fn no_streams() -> Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(Error::file("opening", Path::new("/dev/null")))?;
    let _ = rustix::stdio::dup2_stdin(&null);
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
    Ok(())
}
