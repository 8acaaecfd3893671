//! What stands for a process in a shim: it has the process's streams, passes signals on, and ends
//! as the process does.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::setsid;

use crate::arguments::{Settings, Words};
use crate::background::background;
use crate::error::{Error, Result};
use crate::processes::{for_shim, note_stands};
use crate::ready::Ready;
use crate::rootfs::Rootfs;
use crate::signals::All;
use crate::spec::{Spec, read};
use crate::state_dir::{PodDir, StateDir, TaskDir};
use crate::supervisor::{Announcement, make_fifo};
use crate::task::{Fifos, Tasks};
use crate::terminal::Terminal;
use crate::verb::delete::end;
use crate::{launch, mounts};

/// The exit code of a process whose shim is lost.
const LOST: u32 = 255;
/// After a process's end its output is waited for as long as some comes, with pauses up to this.
const PAUSE: Duration = Duration::from_millis(200);
/// A descendant that goes on writing holds nobody up for longer.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);

/// A process to stand for.
struct Process {
    task: TaskDir,
    pod: PodDir,
    /// The name of a command in the container; empty for the container's own process.
    exec: String,
    terminal: bool,
}

/// Makes the process, says so, and stands for it until it ends.
pub(crate) fn run(settings: &Settings, state: &StateDir, words: &Words) -> Result<u32> {
    let ready = Ready::of(words)?;
    let standing = ready.tell(stand(settings, state, words))?;
    Ok(standing.until_the_end())
}

/// A process that exists.
struct Standing {
    process: Process,
    tasks: Tasks,
    announcement: Announcement,
    streams: Streams,
}

fn stand(settings: &Settings, state: &StateDir, words: &Words) -> Result<Standing> {
    let task = state.task(&words.word(0)?)?;
    let pod = task.pod(state)?;
    let exec = words
        .option("--exec")
        .map(|path| path.to_string_lossy().into_owned());
    let exec = exec.unwrap_or_default();
    let command = words
        .option("--process")
        .map(|path| read(&path))
        .transpose()?;
    let console = words.option("--console-socket");
    let process = Process {
        terminal: console.is_some(),
        task,
        pod,
        exec,
    };
    let endpoint = process.pod.endpoint()?;
    // The view in which we were started would be kept for as long as we live.
    mounts::join(endpoint.pid)?;
    let signals = All::hold();
    let announcement = Announcement::make(&process.pod, &process.task.id, &process.exec)?;
    let terminal = console.map(|socket| Terminal::make(&socket)).transpose()?;
    let (fifos, streams) = Streams::make(&process, terminal.as_ref())?;
    let mut tasks = Tasks::connect(&endpoint)?;
    let id = process.task.id.as_str();
    let made = match command {
        None => create(settings, state, words, &process, &mut tasks, &fifos),
        Some(command) => tasks
            .exec(id, &process.exec, &fifos, command)
            .and_then(|()| tasks.start(id, &process.exec))
            .map_err(|error| without_exec(settings, error)),
    };
    if let Err(error) = made {
        announcement.done();
        return Err(error);
    }
    pass_signals_on(signals, &process, terminal.as_ref())?;
    let terminal = terminal.map(|mut terminal| terminal.hand_over());
    if terminal.is_none() {
        // Else the terminal is the reason for one already.
        let _ = setsid();
    }
    terminal.transpose()?;
    note_own_pid(words)?;
    Ok(Standing {
        process,
        tasks,
        announcement,
        streams,
    })
}

/// Has the shim make the container that we are about to stand for.
fn create(
    settings: &Settings,
    state: &StateDir,
    words: &Words,
    process: &Process,
    tasks: &mut Tasks,
    fifos: &Fifos,
) -> Result<()> {
    let Process { task, pod, .. } = process;
    let (spec, joined) = for_shim(tasks, state, pod, Spec::read(&task.dir)?)?;
    spec.write(&task.dir)?;
    note_stands(task)?;
    let path = task.dir.to_string_lossy().into_owned();
    let options = launch::options(settings)?;
    let rootfs = if settings.guest_pull {
        Rootfs::in_guest(&spec)?
    } else {
        Rootfs::bind(&words.needed("--rootfs")?)
    };
    tasks.create(&task.id, &path, Some(&rootfs), fifos, options.as_ref())?;
    joined.check().inspect_err(|_| {
        // It has seen nothing yet, and will not.
        let _ = end(settings, pod, tasks, &task.id, &task.dir);
    })
}

/// Says of a shim that has no commands that no other will do either.
fn without_exec(settings: &Settings, error: Error) -> Error {
    if !error.is_not_there() {
        return error;
    }
    let shim = settings.shim.display();
    Error::Failed(format!(
        "the shim {shim} runs no commands in its containers ({error})"
    ))
}

impl Standing {
    fn until_the_end(mut self) -> u32 {
        let Process { task, exec, .. } = &self.process;
        let code = self.tasks.wait(&task.id, exec).unwrap_or(LOST);
        self.streams.drain();
        self.announcement.done();
        code
    }
}

/// The copying between the streams that we were given and the fifos of the shim.
struct Streams {
    /// Writing ends of our own, so that a shim that opens its own late meets no end before.
    held: Vec<File>,
    copied: Arc<AtomicU64>,
    outputs: Arc<AtomicUsize>,
}

impl Streams {
    fn make(process: &Process, terminal: Option<&Terminal>) -> Result<(Fifos, Self)> {
        let dir = if process.exec.is_empty() {
            process.task.dir.clone()
        } else {
            process.task.dir.join(&process.exec)
        };
        crate::state_dir::private(&dir)?;
        let mut streams = Self {
            held: Vec::new(),
            copied: Arc::default(),
            outputs: Arc::default(),
        };
        let mut fifos = Fifos {
            terminal: process.terminal,
            ..Fifos::default()
        };
        let stdin = duplicate(rustix::stdio::stdin())?;
        let (input, output) = match terminal {
            Some(terminal) => (Some(terminal.end()?), terminal.end()?),
            None => (
                is_read(&stdin).then_some(stdin),
                duplicate(rustix::stdio::stdout())?,
            ),
        };
        fifos.stdout = streams.output(&dir.join("stdout"), output)?;
        if !process.terminal {
            let stderr = duplicate(rustix::stdio::stderr())?;
            fifos.stderr = streams.output(&dir.join("stderr"), stderr)?;
        }
        if let Some(input) = input {
            fifos.stdin = Self::input(process, &dir.join("stdin"), input)?;
        }
        no_streams()?;
        Ok((fifos, streams))
    }

    fn output(&mut self, fifo: &Path, to: OwnedFd) -> Result<String> {
        make_fifo(fifo)?;
        let opened = File::options().read(true).write(true).open(fifo);
        let held = opened.map_err(Error::file("opening", fifo))?;
        let opened = File::options().read(true).open(fifo);
        let from = opened.map_err(Error::file("opening", fifo))?;
        self.held.push(held);
        let (copied, outputs) = (self.copied.clone(), self.outputs.clone());
        outputs.fetch_add(1, Ordering::Relaxed);
        background(move || {
            copy(from, &File::from(to), &copied);
            outputs.fetch_sub(1, Ordering::Release);
        })?;
        Ok(fifo.to_string_lossy().into_owned())
    }

    fn input(process: &Process, fifo: &Path, from: OwnedFd) -> Result<String> {
        make_fifo(fifo)?;
        // With a reading end of our own it can be opened before the shim has.
        let opened = File::options().read(true).write(true).open(fifo);
        let to = opened.map_err(Error::file("opening", fifo))?;
        let (pod, id) = (process.pod.clone(), process.task.id.clone());
        let exec = process.exec.clone();
        background(move || {
            copy(File::from(from), &to, &AtomicU64::new(0));
            drop(to);
            if let Ok(mut tasks) = pod.tasks() {
                let _ = tasks.close_stdin(&id, &exec);
            }
        })?;
        Ok(fifo.to_string_lossy().into_owned())
    }

    /// Waits for the last output of a process that has ended.
    fn drain(&mut self) {
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

/// Tells the caller that it is we who stand for the process.
pub(crate) fn note_own_pid(words: &Words) -> Result<()> {
    let Some(path) = words.option("--pid-file") else {
        return Ok(());
    };
    let pid = std::process::id().to_string();
    std::fs::write(&path, pid).map_err(Error::file("writing", &path))
}

/// Lets go of our standard streams: they would keep their readers waiting after the process's end.
pub(crate) fn no_streams() -> Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(Error::file("opening", Path::new("/dev/null")))?;
    let _ = rustix::stdio::dup2_stdin(&null);
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
    Ok(())
}

fn copy(mut from: File, mut to: &File, copied: &AtomicU64) {
    let mut bytes = vec![0; 32 * 1024];
    loop {
        let read = match from.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if to.write_all(&bytes[..read]).is_err() {
            return;
        }
        copied.fetch_add(read as u64, Ordering::Release);
    }
}

/// Whether somebody may write to a standard input: not if it is /dev/null.
fn is_read(stdin: &OwnedFd) -> bool {
    let null = rustix::fs::stat("/dev/null").map(|null| null.st_rdev);
    match (rustix::fs::fstat(stdin), null) {
        (Ok(stat), Ok(null)) => stat.st_rdev != null,
        _ => false,
    }
}

fn duplicate(fd: impl AsFd) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|errno| Error::Io {
        doing: "taking over the standard streams".into(),
        source: errno.into(),
    })
}

/// Passes signals on to the process, and changes of its terminal's size.
fn pass_signals_on(signals: All, process: &Process, terminal: Option<&Terminal>) -> Result<()> {
    let (pod, id) = (process.pod.clone(), process.task.id.clone());
    let exec = process.exec.clone();
    let terminal = terminal.map(Terminal::end).transpose()?;
    background(move || {
        loop {
            let signal = signals.next();
            let Ok(mut tasks) = pod.tasks() else {
                continue;
            };
            // What the process does not take is its own affair.
            let _ = match (signal, &terminal) {
                (libc::SIGCHLD | libc::SIGPIPE, _) => continue,
                (libc::SIGWINCH, Some(terminal)) => match rustix::termios::tcgetwinsize(terminal) {
                    Ok(size) => tasks.resize(&id, &exec, (size.ws_col, size.ws_row)),
                    Err(_) => continue,
                },
                (signal, _) => tasks.kill(&id, &exec, signal as u32, false),
            };
        }
    })
}
