//! Programs under strace: their system calls, and kills before one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::machine;
use crate::process::Killed;

/// Time limit for strace to stop a program, attach or detach.
const LIMIT: Duration = Duration::from_secs(20);

/// Checks whether strace works here.
pub fn can_trace() -> Result<(), String> {
    machine::has_program("strace")?;
    let mut command = Command::new("strace");
    match command.args(["-o", "/dev/null", "true"]).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("strace may not trace here: {}", said.trim()))
        }
        Err(error) => Err(format!("strace: {error}")),
    }
}

/// Parses the output of `strace -f`: thread, name and arguments of each call, in the order of entry.
pub fn lines(output: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    output.lines().filter_map(|line| {
        // `1234  openat(…`; the end of an interrupted call begins with `<...`.
        let (thread, rest) = line.split_once(' ')?;
        let (name, arguments) = rest.trim_start().split_once('(')?;
        let is_name = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then_some((thread, name, arguments))
    })
}

/// A system call of a traced run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Thread, numbered in the order of first calls from 0.
    pub thread: usize,
    /// Name of the system call.
    pub name: String,
    /// Count of this call in this thread, from 1.
    pub nth: usize,
    /// Count of this call in all threads.
    pub nth_of_all: usize,
    /// Arguments, with the result if it is on the same line.
    pub arguments: String,
}

impl Call {
    /// Returns whether it is the same step of another run, in which paths, numbers and threads may differ.
    pub fn is_same_step(&self, other: &Self) -> bool {
        (&self.name, self.nth_of_all) == (&other.name, other.nth_of_all)
    }
}

/// Runs of a program under strace with some of its system calls.
#[derive(Debug)]
pub struct Traced<'a> {
    program: &'a Command,
    calls: &'a str,
    output: &'a Path,
}

impl<'a> Traced<'a> {
    /// Prepares runs of `program` that trace `calls` (`openat,write`) into the file `output`.
    pub fn new(program: &'a Command, calls: &'a str, output: &'a Path) -> Self {
        Self {
            program,
            calls,
            output,
        }
    }

    /// Runs the program, which must succeed.
    pub fn run(&self) -> Vec<Call> {
        let mut strace = self.strace(self.output);
        let strace = self.add_program(&mut strace).output().unwrap();
        assert!(strace.status.success(), "{strace:?}");
        calls(&read(self.output))
    }

    /// Runs the program, and kills it before this call of an earlier `run`. Returns the call at which it was killed.
    ///
    /// strace counts calls separately in each thread, so it finds the first thread that makes the call for the `nth`
    /// time. For other calls, the program is stopped at an earlier call, and the count starts there.
    pub fn kill_before(&self, run: &[Call], call: &Call) -> Option<Call> {
        if is_first_of_its_kind(run, call) {
            let mut strace = self.strace(self.output);
            strace.args(["-e", &inject(&call.name, "KILL", call.nth)]);
            let strace = self.add_program(&mut strace).output().unwrap();
            return (!strace.status.success()).then(|| last_call(&read(self.output)))?;
        }
        let at = run.iter().position(|other| other == call)?;
        (0..at).rev().find_map(|stop| {
            let rest = counted_again(&run[stop + 1..]);
            let again = &rest[at - stop - 1];
            (is_first_of_its_kind(run, &run[stop]) && is_first_of_its_kind(&rest, again))
                .then(|| self.kill_after(&run[stop], again))?
        })
    }

    /// Stops the program at a call, and kills it before a later one, counted from there.
    fn kill_after(&self, stop: &Call, call: &Call) -> Option<Call> {
        let _ = fs::remove_file(self.output);
        let mut strace = self.strace(self.output);
        // With `-D` strace is a detached grandchild, which can exit on its own.
        strace.args(["-D", "-e", &inject(&stop.name, "STOP", stop.nth)]);
        strace.stdout(Stdio::null()).stderr(Stdio::null());
        let mut program = Killed(self.add_program(&mut strace).spawn().unwrap());
        wait_until("stop", || read(self.output).contains("stopped by SIGSTOP"));
        let pid = program.0.id();
        kill_process(tracer_of(pid).unwrap(), Signal::KILL).unwrap();
        wait_until("let go", || tracer_of(pid).is_none());

        let rest = self.output.with_extension("rest");
        let _ = fs::remove_file(&rest);
        let mut strace = self.strace(&rest);
        strace.args(["-e", &inject(&call.name, "KILL", call.nth)]);
        strace.args(["-p", &pid.to_string()]).stderr(Stdio::null());
        let mut strace = Killed(strace.spawn().unwrap());
        let threads = || fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        wait_until("attach", || {
            threads().all(|thread| {
                let thread = thread.file_name().to_string_lossy().parse();
                tracer_of(thread.unwrap()).is_some()
            })
        });
        let program_id = Pid::from_raw(pid.cast_signed()).unwrap();
        kill_process(program_id, Signal::CONT).unwrap();
        let status = program.0.wait().unwrap();
        strace.0.wait().unwrap();
        let all = read(self.output) + &read(&rest);
        (!status.success()).then(|| last_call(&all))?
    }

    fn strace(&self, output: &Path) -> Command {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-y", "-e", &format!("trace={}", self.calls)]);
        command.arg("-o").arg(output);
        command
    }

    fn add_program<'c>(&self, strace: &'c mut Command) -> &'c mut Command {
        strace.arg(self.program.get_program());
        strace.args(self.program.get_args());
        for (name, value) in self.program.get_envs() {
            match value {
                Some(value) => strace.env(name, value),
                None => strace.env_remove(name),
            };
        }
        strace
    }
}

fn inject(call: &str, signal: &str, nth: usize) -> String {
    format!("inject={call}:signal={signal}:when={nth}")
}

/// Returns whether no other thread reaches the same count of the call earlier.
fn is_first_of_its_kind(run: &[Call], call: &Call) -> bool {
    let kind = |other: &&Call| (&other.name, other.nth) == (&call.name, call.nth);
    run.iter().find(kind) == Some(call)
}

/// Returns the calls of a part of a run, with counts from its start.
fn counted_again(part: &[Call]) -> Vec<Call> {
    let mut counts: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    let again = part.iter().map(|call| {
        let nth = counts.entry((call.thread, &call.name)).or_default();
        *nth += 1;
        Call {
            nth: *nth,
            ..call.clone()
        }
    });
    again.collect()
}

/// Returns the calls with their counts.
fn calls(output: &str) -> Vec<Call> {
    let mut threads: Vec<&str> = Vec::new();
    let mut counts: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    let mut of_all: BTreeMap<&str, usize> = BTreeMap::new();
    let mut calls = Vec::new();
    for (thread, name, arguments) in lines(output) {
        let known = threads.iter().position(|known| *known == thread);
        let thread = known.unwrap_or_else(|| {
            threads.push(thread);
            threads.len() - 1
        });
        let nth = counts.entry((thread, name)).or_default();
        *nth += 1;
        let nth_of_all = of_all.entry(name).or_default();
        *nth_of_all += 1;
        calls.push(Call {
            thread,
            name: name.to_owned(),
            nth: *nth,
            nth_of_all: *nth_of_all,
            arguments: arguments.to_owned(),
        });
    }
    calls
}

fn last_call(output: &str) -> Option<Call> {
    calls(output).pop()
}

fn read(output: &Path) -> String {
    String::from_utf8_lossy(&fs::read(output).unwrap_or_default()).into_owned()
}

/// Returns the tracer of a thread.
pub fn tracer_of(thread: u32) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))?;
    Pid::from_raw(line.trim().parse().ok()?)
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT * machine::patience();
    while !is_so() {
        assert!(Instant::now() < deadline, "strace did not {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the distinct names of the calls.
pub fn names<'a>(calls: impl IntoIterator<Item = &'a Call>) -> BTreeSet<&'a str> {
    calls.into_iter().map(|call| call.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_thread_and_interrupted_ones_once() {
        let output = "7 openat(AT_FDCWD, \"a\") = 3\n\
                      9  openat(AT_FDCWD, \"b\" <unfinished ...>\n\
                      7 write(3</a>, \"(\", 1) = 1\n\
                      9  <... openat resumed>) = 4\n\
                      9 openat(AT_FDCWD, \"c\") = 5\n\
                      9 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
                      9 +++ killed by SIGKILL +++\n";
        let found = calls(output);
        let steps: Vec<_> = found
            .iter()
            .map(|call| (call.thread, call.name.as_str(), call.nth))
            .collect();
        assert_eq!(
            steps,
            [
                (0, "openat", 1),
                (1, "openat", 1),
                (0, "write", 1),
                (1, "openat", 2)
            ]
        );
        assert!(!is_first_of_its_kind(&found, &found[1]));
        assert!(is_first_of_its_kind(&found, &found[3]));
        let rest = counted_again(&found[1..]);
        assert_eq!((rest[2].nth, rest[0].nth), (2, 1));
        assert!(is_first_of_its_kind(&rest, &rest[0]));
    }
}
