//! The proxy of a process in a shim: it holds the process's streams, forwards signals, and exits as the process does.

use rustix::process::setsid;

use crate::announcement::Announcement;
use crate::arguments::{Settings, Words};
use crate::background::background;
use crate::end_task::end;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::processes::{for_shim, note_stands};
use crate::ready::{Ready, note_own_pid};
use crate::rootfs;
use crate::signals::All;
use crate::spec::{Spec, read};
use crate::state_dir::StateDir;
use crate::streams::Streams;
use crate::task::{Stdio, Tasks};
use crate::terminal::Terminal;
use crate::{launch, mounts};

/// The exit code of a process whose shim is lost.
const LOST: u32 = 255;

/// Creates the process, reports it, and stands for it until it exits.
pub(crate) fn run(settings: &Settings, state: &StateDir, words: &Words) -> Result<u32> {
    let ready = Ready::of(words)?;
    let standing = ready.tell(stand(settings, state, words))?;
    Ok(standing.until_the_end())
}

/// A created process.
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
    // Leave the initial mount namespace, which would otherwise exist as long as this process.
    mounts::join(endpoint.pid)?;
    let signals = All::hold();
    let announcement = Announcement::make(&process.pod, &process.task.id, &process.exec)?;
    let terminal = console.map(|socket| Terminal::make(&socket)).transpose()?;
    let (stdio, streams) = Streams::make(settings.io, &process, &endpoint, terminal.as_ref())?;
    let mut tasks = Tasks::connect(&endpoint)?;
    let id = process.task.id.as_str();
    let made = match command {
        None => create(settings, state, words, &process, &mut tasks, &stdio),
        Some(command) => tasks
            .exec(id, &process.exec, &stdio, command)
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
        // Fails only if the terminal setup has already created a session.
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

/// Makes the shim create the container.
fn create(
    settings: &Settings,
    state: &StateDir,
    words: &Words,
    process: &Process,
    tasks: &mut Tasks,
    stdio: &Stdio,
) -> Result<()> {
    let Process { task, pod, .. } = process;
    let (spec, joined) = for_shim(tasks, state, pod, Spec::read(&task.dir)?)?;
    spec.write(&task.dir)?;
    note_stands(task)?;
    let path = task.dir.to_string_lossy().into_owned();
    let options = launch::options(settings)?;
    let rootfs = if settings.guest_pull {
        rootfs::in_guest(&spec)?
    } else {
        rootfs::bind(&words.needed("--rootfs")?)
    };
    tasks.create(&task.id, &path, Some(rootfs), stdio, options)?;
    joined.check().inspect_err(|_| {
        // The caller has not seen the container yet and will not.
        let _ = end(settings, pod, tasks, &task.id, &task.dir);
    })
}

/// Rewords the error of a shim without exec support: no other command will work either.
fn without_exec(settings: &Settings, error: Error) -> Error {
    if !error.is_not_there() {
        return error;
    }
    let shim = settings.shim.display();
    Error::Failed(format!("the shim {shim} does not support exec ({error})"))
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

/// Forwards signals and terminal size changes to the process.
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
            // A signal that the process rejects is ignored.
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
