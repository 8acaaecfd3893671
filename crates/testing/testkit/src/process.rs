//! A child process that ends with the test, with its output in a file.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const POLL: Duration = Duration::from_millis(2);

/// Returns a line of a process's status by name (`Cpus_allowed_list:`).
pub fn status(pid: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let status = status.unwrap_or_else(|e| panic!("the process {pid}: {e}"));
    let line = status.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("no {name} of the process {pid}:\n{status}"))
        .to_owned()
}

/// Returns a value of a process's status (`RssAnon:`) in kB.
pub fn memory(pid: u32, name: &str) -> u64 {
    let line = status(pid, name);
    let number = line.split_ascii_whitespace().nth(1);
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{line:?} of the process {pid} is not in kB"))
}

/// Result of a command.
#[derive(Debug)]
pub struct Said {
    /// Whether the exit code is 0.
    pub ok: bool,
    /// Exit code, unless it was killed.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Time limit of a command, on a machine that is not emulated.
const LONGEST: Duration = Duration::from_secs(30);

/// Runs a command without input.
pub fn ended(command: &mut Command) -> Said {
    ended_with(command, Stdio::null())
}

/// Runs a command with a time limit. Its output goes to files, as a container that lives on would keep pipes open.
pub fn ended_with(command: &mut Command, input: Stdio) -> Said {
    let file = || tempfile::tempfile().expect("make a file");
    let (out, err) = (file(), file());
    let for_it = |file: &File| file.try_clone().expect("share a file");
    let mut child = command
        .stdin(input)
        .stdout(for_it(&out))
        .stderr(for_it(&err))
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let deadline = Instant::now() + LONGEST * crate::machine::patience();
    let status = loop {
        match child.try_wait().expect("wait for a child") {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("{command:?} did not end");
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let text = |mut file: File| {
        let mut bytes = Vec::new();
        file.rewind().expect("go to its begin");
        file.read_to_end(&mut bytes).expect("read what was said");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Said {
        ok: status.success(),
        code: status.code(),
        out: text(out),
        err: text(err),
    }
}

/// Runs a program that must succeed, and returns its output.
#[track_caller]
pub fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&*output.stdout, &*output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{command:?}: {said}");
    output.stdout
}

/// Runs a program that must succeed, and returns its output as text.
#[track_caller]
pub fn run_for_text(command: &mut Command) -> String {
    String::from_utf8(run(command)).expect("text")
}

/// Returns the processes whose command line contains all these words.
pub fn processes(words: &[&str]) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut found: Vec<i32> = pids
        .filter(|pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            words.iter().all(|word| line.contains(word))
        })
        .collect();
    found.sort_unstable();
    found
}

/// A running program, ended on drop.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    over: Option<ExitStatus>,
}

impl Process {
    /// Starts `command`, with its output appended to `log`.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> Self {
        Self::spawn_reading(Stdio::null(), name, command, log)
    }

    /// Starts `command` with a standard input, and its output appended to `log`.
    pub fn spawn_reading(input: Stdio, name: &str, command: &mut Command, log: &Path) -> Self {
        let file = File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap_or_else(|e| panic!("opening the log {}: {e}", log.display()));
        let child = command
            .stdin(input)
            .stdout(file.try_clone().expect("duplicate a file descriptor"))
            .stderr(file)
            .spawn()
            .unwrap_or_else(|e| panic!("starting {name} ({command:?}): {e}"));
        Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
            over: None,
        }
    }

    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its output so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns its exit status if it has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.over.is_none() {
            self.over = self.child.try_wait().expect("wait for a child");
        }
        self.over
    }

    /// Sends a signal, unless it has exited.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            let pid = Pid::from_child(&self.child);
            // It is not reaped yet, so the ID cannot have been reused.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until it exits.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Terminates it, and kills it after the grace period.
    pub fn stop(&mut self, grace: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        if let Some(status) = self.wait(grace) {
            return status;
        }
        eprintln!(
            "testkit: {} did not end within {grace:?} of SIGTERM",
            self.name
        );
        self.kill()
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) -> ExitStatus {
        self.signal(Signal::KILL);
        if self.over.is_none() {
            self.over = Some(self.child.wait().expect("wait for a killed child"));
        }
        self.over.expect("just waited for")
    }

    /// Polls until `ready` holds; panics with the log if it exits or the limit is reached.
    pub fn wait_until(&mut self, limit: Duration, what: &str, mut ready: impl FnMut() -> bool) {
        let deadline = Instant::now() + limit;
        while !ready() {
            let ended = self.ended();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "{} did not {what} ({}); its log:\n{}",
                self.name,
                ended.map_or_else(|| format!("waited {limit:?}"), |s| format!("ended: {s}")),
                self.log(),
            );
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.stop(Duration::from_secs(5));
        }
    }
}

/// A child process that is killed on drop.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_and_the_end_is_seen() {
        let dir = tempfile::tempdir().expect("make a directory");
        let mut sh = Command::new("sh");
        sh.args(["-c", "echo to stdout; echo to stderr >&2; exit 3"]);
        let mut process = Process::spawn("sh", &mut sh, &dir.path().join("log"));
        let status = process
            .wait(Duration::from_secs(10))
            .expect("ends by itself");
        assert_eq!(status.code(), Some(3));
        assert_eq!(process.log(), "to stdout\nto stderr\n");
    }

    #[test]
    fn what_ignores_sigterm_is_killed() {
        let dir = tempfile::tempdir().expect("make a directory");
        let mut sh = Command::new("sh");
        sh.args([
            "-c",
            "trap '' TERM; echo ready; while :; do sleep 0.05; done",
        ]);
        let mut process = Process::spawn("sh", &mut sh, &dir.path().join("log"));
        let log = dir.path().join("log");
        process.wait_until(Duration::from_secs(10), "get ready", || {
            std::fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
        });
        let status = process.stop(Duration::from_millis(100));
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
    }
}
