//! The stand-in of a process in a sandbox: it holds the process's streams, forwards signals, and exits as the process
//! does.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use orlop_fs::Outlives;
use rustix::process::{
    Signal, getpid, getppid, ioctl_tiocsctty, set_parent_process_death_signal, setsid,
};

use super::files::leave;
use super::runtime::{Runtime, short};
use super::{capabilities, processes};
use crate::announcement::Announcement;
use crate::arguments::Words;
use crate::background::background;
use crate::error::{Error, Result};
use crate::ready::{Ready, note_own_pid};
use crate::signals::All;
use crate::spec::{Spec, read};
use crate::state_dir::{StateDir, TaskDir, private};
use crate::streams::no_streams;
use crate::terminal;

/// The exit code of a process whose sandbox is lost.
const LOST: u8 = 255;
/// Pause between two calls that wait for the same exit.
const AGAIN: Duration = Duration::from_millis(50);
const START: &str = "start";
const END: &str = "end";
const LONGEST_WORD: u64 = 16 * 1024;
/// How often to look for processes that were forked meanwhile.
const ROUNDS: usize = 8;

/// Creates the process, reports it, and stands for it until it exits.
pub(super) fn run(runtime: &Runtime, state: &StateDir, words: &Words) -> Result<u8> {
    let ready = Ready::of(words)?;
    let task = state.task(&words.word(0)?)?;
    match words.option("--exec") {
        Some(name) => command(runtime, state, &task, &name.to_string_lossy(), words, ready),
        None => container(runtime, state, &task, words, ready),
    }
}

fn container(
    runtime: &Runtime,
    state: &StateDir,
    task: &TaskDir,
    words: &Words,
    ready: Ready,
) -> Result<u8> {
    let made = || {
        let signals = All::hold();
        let announcement = Announcement::make(&task.pod(state)?, &task.id, "")?;
        let bundle = words.needed("--bundle")?;
        let spec = Spec::read(&bundle)?;
        let mut spec = processes::settle(state, task, spec)?;
        if let Some(process) = spec.process() {
            capabilities::keep_known(runtime, process);
        }
        spec.write(&bundle)?;
        let mut create: Vec<OsString> =
            vec!["create".into(), "--bundle".into(), bundle.clone().into()];
        if let Some(socket) = words.option("--console-socket") {
            create.extend(["--console-socket".into(), socket.into()]);
        }
        create.push(task.id.clone().into());
        let dir = File::open(&task.dir).map_err(Error::file("opening", &task.dir))?;
        let door = UnixListener::bind(short(&dir, "door"))
            .map_err(Error::file("listening in", &task.dir))?;
        if let Err(error) = runtime.call(&create) {
            announcement.done();
            return Err(error);
        }
        let _ = setsid();
        note_own_pid(words)?;
        Ok((signals, announcement, door, spec, bundle))
    };
    let (signals, announcement, door, spec, bundle) = ready.tell(made())?;
    let started = wait_for_start(runtime, task, &door);
    drop(door);
    let _ = leave(&spec, &bundle);
    if !started {
        announcement.done();
        return Ok(LOST);
    }
    let _ = no_streams();
    let (passing, id) = (runtime.clone(), task.id.clone());
    background(move || {
        loop {
            let signal = signals.next();
            if is_for_us(signal) {
                continue;
            }
            // A signal that the process rejects is ignored.
            let _ = passing.kill(&id, &signal.to_string(), false);
        }
    })?;
    let code = wait(runtime, &task.id);
    announcement.done();
    Ok(code)
}

/// Waits for the start request; `false` if the container is ended first.
fn wait_for_start(runtime: &Runtime, task: &TaskDir, door: &UnixListener) -> bool {
    for caller in door.incoming() {
        let Ok(mut caller) = caller else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let mut word = String::new();
        let _ = BufReader::new((&mut caller).take(16)).read_line(&mut word);
        match word.trim() {
            START => {
                let started = start_here(runtime, task);
                let _ = match &started {
                    Ok(()) => caller.write_all(b"ok"),
                    Err(error) => caller.write_all(error.to_string().as_bytes()),
                };
                return started.is_ok();
            }
            END => return false,
            _ => {}
        }
    }
    false
}

/// Starts the container, which gets the streams of this process.
fn start_here(runtime: &Runtime, task: &TaskDir) -> Result<()> {
    let path = task.dir.join("log");
    let words = ["--log".into(), path.clone().into(), "start".into()];
    let words: Vec<OsString> = words.into_iter().chain([task.id.clone().into()]).collect();
    let mut command = runtime.command(&words);
    streams(&mut command)?;
    let child = command
        .spawn()
        .map_err(|source| runtime.failed_to_run(source))?;
    runtime.finish(child, "start", || {
        orlop_fs::read_tail(&path, LONGEST_WORD).unwrap_or_default()
    })
}

/// `start`: asks the container's stand-in to start it.
pub(super) fn start(task: &TaskDir) -> Result<()> {
    let mut door = connect(task)
        .map_err(|_| Error::Failed(format!("container {} is not in the created state", task.id)))?;
    let failed = |doing| Error::file(doing, &task.dir);
    writeln!(door, "{START}").map_err(failed("writing to the start socket in"))?;
    let said = orlop_fs::read_start(door, LONGEST_WORD)
        .map_err(failed("reading from the start socket in"))?;
    match &*String::from_utf8_lossy(&said) {
        "ok" => Ok(()),
        "" => Err(Error::Failed(format!(
            "the proxy process of container {} has exited",
            task.id
        ))),
        problem => Err(Error::Failed(problem.to_owned())),
    }
}

/// Ends a stand-in that still waits for the start.
pub(super) fn end(task: &TaskDir) {
    if let Ok(mut door) = connect(task) {
        let _ = writeln!(door, "{END}");
    }
}

fn connect(task: &TaskDir) -> std::io::Result<UnixStream> {
    let dir = File::open(&task.dir)?;
    UnixStream::connect(short(&dir, "door"))
}

/// Waits for a container's exit. If the waiting call is killed, it is repeated.
fn wait(runtime: &Runtime, id: &str) -> u8 {
    loop {
        if let Some(code) = wait_once(runtime, id) {
            return code;
        }
        let state = runtime.answer(&["state", id].map(Into::into));
        let state: serde_json::Value =
            serde_json::from_str(&state.unwrap_or_default()).unwrap_or_default();
        if state["status"] != "running" {
            return LOST;
        }
        thread::sleep(AGAIN);
    }
}

fn wait_once(runtime: &Runtime, id: &str) -> Option<u8> {
    let mut command = runtime.command(&["wait", id].map(OsString::from));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    die_with_us(&mut command);
    let mut child = command.spawn().ok()?;
    let said = orlop_fs::read_start(child.stdout.take()?, LONGEST_WORD);
    let _ = child.wait();
    let said: serde_json::Value = serde_json::from_slice(&said.ok()?).ok()?;
    u8::try_from(said["exitStatus"].as_u64()?).ok()
}

/// Makes a process die with this stand-in.
#[allow(unsafe_code)]
fn die_with_us(command: &mut std::process::Command) {
    let us = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The stand-in may have died before; the new parent need not be init.
        if getppid() != Some(us) {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        Ok(())
    };
    // SAFETY: it makes two system calls and allocates no memory.
    unsafe { command.pre_exec(bind) };
}

/// Runs another process in a container: the runtime's `exec` exits as it does.
fn command(
    runtime: &Runtime,
    state: &StateDir,
    task: &TaskDir,
    name: &str,
    words: &Words,
    ready: Ready,
) -> Result<u8> {
    let dir = task.dir.join(name);
    let made = || {
        let signals = All::hold();
        private(&dir)?;
        let announcement = Announcement::make(&task.pod(state)?, &task.id, name)?;
        let begun = begin(runtime, task, &dir, words).and_then(|child| {
            note_own_pid(words)?;
            Ok(child)
        });
        match begun {
            Ok(child) => Ok((signals, announcement, child)),
            Err(error) => {
                announcement.done();
                Err(error)
            }
        }
    };
    let (signals, announcement, mut child) = ready.tell(made())?;
    let (passing, id) = (runtime.clone(), task.id.clone());
    background(move || {
        loop {
            let signal = signals.next();
            if !is_for_us(signal) {
                let _ = kill_command(&passing, &id, &dir, &signal.to_string());
            }
        }
    })?;
    let status = child
        .wait()
        .map_err(|source| runtime.failed_to_run(source))?;
    announcement.done();
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(LOST))
}

/// Starts a command; it has started when its pid in the sandbox is known.
fn begin(runtime: &Runtime, task: &TaskDir, dir: &Path, words: &Words) -> Result<Child> {
    let (number, log) = (dir.join("pid"), dir.join("log"));
    let mut exec: Vec<OsString> = vec!["--log".into(), log.clone().into(), "exec".into()];
    let process = known_process(runtime, dir, words.needed("--process")?)?;
    exec.extend(["--process".into(), process.into()]);
    exec.extend(["--internal-pid-file".into(), number.clone().into()]);
    exec.push(task.id.clone().into());
    let mut command = runtime.command(&exec);
    match words.option("--console-socket") {
        // runsc uses a terminal socket only if it does not wait for the command.
        Some(socket) => on_terminal(&mut command, terminal::given_to(&socket)?)?,
        None => streams(&mut command)?,
    }
    let _ = setsid();
    let mut child = command
        .spawn()
        .map_err(|source| runtime.failed_to_run(source))?;
    // Its copies of the terminal would keep the terminal open.
    drop(command);
    let _ = no_streams();
    let mut pause = Duration::from_millis(1);
    loop {
        let ended = child
            .try_wait()
            .map_err(|source| runtime.failed_to_run(source))?;
        if orlop_fs::read_text(&number, orlop_fs::SMALL_FILE).is_ok_and(|text| !text.is_empty()) {
            return Ok(child);
        }
        if let Some(status) = ended {
            let said = orlop_fs::read_tail(&log, LONGEST_WORD).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            return Err(Error::Failed(format!(
                "{} exec ({status}): {}",
                runtime.name(),
                said.trim()
            )));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Writes the description of a process without capabilities that the runtime does not know.
fn known_process(runtime: &Runtime, dir: &Path, path: PathBuf) -> Result<PathBuf> {
    let text = read(&path)?;
    let garbled = |_| Error::Garbled(path.display().to_string());
    let mut process = serde_json::from_slice(&text).map_err(garbled)?;
    if !capabilities::keep_known(runtime, &mut process) {
        return Ok(path);
    }
    let known = dir.join("process.json");
    // The environment may contain secrets.
    let text = process.to_string();
    orlop_fs::write_file(&known, 0o600, Outlives::Kill, text.as_bytes())
        .map_err(Error::file("writing", &known))?;
    Ok(known)
}

/// Kills the command whose files are in `dir`, with all its descendants.
pub(super) fn end_command(runtime: &Runtime, id: &str, dir: &Path) -> Result<()> {
    let first = number_of(dir)?;
    let mut held = Vec::new();
    for _ in 0..ROUNDS {
        let table = runtime.answer(&["ps", id].map(Into::into))?;
        let mut new = tree(&table, first);
        new.retain(|process| !held.contains(process));
        if new.is_empty() {
            break;
        }
        // A stopped process cannot fork. Its children could not be found after it is gone.
        for process in &new {
            // It may have exited meanwhile.
            let _ = kill(runtime, id, *process, "STOP");
        }
        held.append(&mut new);
    }
    // Children before their parents.
    for process in held.into_iter().rev() {
        let _ = kill(runtime, id, process, "KILL");
    }
    Ok(())
}

/// Lists a process and its descendants in a process table.
fn tree(table: &str, first: u32) -> Vec<u32> {
    let mut lines = table.lines().map(|line| line.split_whitespace());
    let head: Vec<_> = lines.next().into_iter().flatten().collect();
    let column = |name| head.iter().position(|title| *title == name);
    let (Some(own), Some(parents)) = (column("PID"), column("PPID")) else {
        return Vec::new();
    };
    let rows = lines.filter_map(|line| {
        let words: Vec<_> = line.collect();
        let number = |at: usize| words.get(at)?.parse::<u32>().ok();
        Some((number(own)?, number(parents)?))
    });
    let rows: Vec<_> = rows.collect();
    let mut found: Vec<u32> = rows
        .iter()
        .map(|row| row.0)
        .filter(|pid| *pid == first)
        .collect();
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        let children = rows.iter().filter(|row| row.1 == parent).map(|row| row.0);
        let new: Vec<_> = children.filter(|pid| !found.contains(pid)).collect();
        found.extend(new);
        at += 1;
    }
    found
}

/// Reads the pid of a command in its sandbox.
fn number_of(dir: &Path) -> Result<u32> {
    let path = dir.join("pid");
    let number =
        orlop_fs::read_text(&path, orlop_fs::SMALL_FILE).map_err(Error::file("reading", &path))?;
    let garbled = |_| Error::Garbled(path.display().to_string());
    number.trim().parse().map_err(garbled)
}

fn kill(runtime: &Runtime, id: &str, process: u32, signal: &str) -> Result<()> {
    let number = process.to_string();
    runtime.call(&["kill", "--pid", &number, id, signal].map(Into::into))
}

/// Sends a signal to the command whose files are in `dir`.
fn kill_command(runtime: &Runtime, id: &str, dir: &Path, signal: &str) -> Result<()> {
    kill(runtime, id, number_of(dir)?, signal)
}

/// Passes our own streams to a command.
fn streams(command: &mut std::process::Command) -> Result<()> {
    let own = |fd: std::os::fd::BorrowedFd<'_>| {
        let copy = fd.try_clone_to_owned();
        copy.map(Stdio::from).map_err(|source| Error::Io {
            doing: "duplicating the standard streams".into(),
            source,
        })
    };
    command
        .stdin(own(std::io::stdin().as_fd())?)
        .stdout(own(std::io::stdout().as_fd())?)
        .stderr(own(std::io::stderr().as_fd())?);
    Ok(())
}

/// Makes a terminal the controlling terminal of a command.
#[allow(unsafe_code)]
fn on_terminal(command: &mut std::process::Command, end: OwnedFd) -> Result<()> {
    let copy = || {
        let copied = end.try_clone();
        copied.map_err(|source| Error::Io {
            doing: "duplicating the file descriptor of a terminal".into(),
            source,
        })
    };
    command.stdin(copy()?).stdout(copy()?).stderr(copy()?);
    let own = move || {
        setsid()?;
        Ok(ioctl_tiocsctty(&end)?)
    };
    // SAFETY: it makes two system calls and allocates no memory.
    unsafe { command.pre_exec(own) };
    Ok(())
}

fn is_for_us(signal: i32) -> bool {
    matches!(signal, libc::SIGCHLD | libc::SIGPIPE | libc::SIGWINCH)
}

#[cfg(test)]
mod tests {
    use super::tree;

    #[test]
    fn what_a_command_has_started_is_found_in_a_table_of_processes() {
        let table = "UID       PID       PPID      C         TTY       STIME     TIME      CMD\n\
                     0         1         0         0         ?         08:00     10ms      sh\n\
                     0         7         5         0         ?         08:00     10ms      sleep\n\
                     0         5         4         0         ?         08:00     10ms      PID PPID 4\n\
                     0         4         0         0         ?         08:00     10ms      sh\n";
        assert_eq!(tree(table, 4), [4, 5, 7]);
        assert_eq!(tree(table, 9), [0; 0]);
        // An invalid table does not cause an endless loop.
        assert_eq!(tree("PID PPID\n1 2\n2 1\nx y\n\n", 1), [1, 2]);
        assert_eq!(tree("", 1), [0; 0]);
    }
}
