//! strace on a program: what it calls, and its death before one of the calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::machine;
use crate::process::Killed;

/// How long strace may take to stop a program, to attach, or to let go.
const LIMIT: Duration = Duration::from_secs(20);

/// Whether strace may trace here.
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

/// The calls that `strace -f` wrote down: thread, name and arguments, in the order in which they
/// were entered.
pub fn lines(output: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    output.lines().filter_map(|line| {
        // `1234  openat(…`; the end of a call that another thread interrupted begins with `<...`.
        let (thread, rest) = line.split_once(' ')?;
        let (name, arguments) = rest.trim_start().split_once('(')?;
        let is_name = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then_some((thread, name, arguments))
    })
}

/// A call of a traced run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which thread makes it: the first that makes a call is 0.
    pub thread: usize,
    /// The system call.
    pub name: String,
    /// How often this thread has made this call by then: 1 is the first time.
    pub nth: usize,
    /// How often all threads together have made it by then.
    pub nth_of_all: usize,
    /// Its arguments, and its result where the same line has it.
    pub arguments: String,
}

impl Call {
    /// Whether it is the same step of another run, whose paths, numbers and threads may differ.
    pub fn is_same_step(&self, other: &Self) -> bool {
        (&self.name, self.nth_of_all) == (&other.name, other.nth_of_all)
    }
}

/// Runs of a program under strace, which watches some of its system calls.
#[derive(Debug)]
pub struct Traced<'a> {
    program: &'a Command,
    calls: &'a str,
    output: &'a Path,
}

impl<'a> Traced<'a> {
    /// For runs of `program` that watch `calls` (`openat,write`) and are written down in `output`.
    pub fn new(program: &'a Command, calls: &'a str, output: &'a Path) -> Self {
        Self {
            program,
            calls,
            output,
        }
    }

    /// Runs the program to its end, which must be a good one.
    pub fn run(&self) -> Vec<Call> {
        let mut strace = self.strace(self.output);
        let strace = self.add_program(&mut strace).output().unwrap();
        assert!(strace.status.success(), "{strace:?}");
        calls(&read(self.output))
    }

    /// Runs the program, and kills it before this call of an earlier `run`. Returns the call at which it
    /// died, if it did.
    ///
    /// strace counts the calls of each thread by themselves: the first call that any thread makes for the
    /// `nth` time is the one that is found. For another the program is stopped at an earlier call, and the
    /// counting begins there.
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

    /// Stops the program at a call, and kills it before a later one, which is counted from there.
    fn kill_after(&self, stop: &Call, call: &Call) -> Option<Call> {
        let _ = fs::remove_file(self.output);
        let mut strace = self.strace(self.output);
        // The program is the child, strace a grandchild that can go.
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

/// Whether no thread makes the same call as often before this one does.
fn is_first_of_its_kind(run: &[Call], call: &Call) -> bool {
    let kind = |other: &&Call| (&other.name, other.nth) == (&call.name, call.nth);
    run.iter().find(kind) == Some(call)
}

/// The calls of a part of a run, counted from its beginning.
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

/// The calls, each with its thread's count.
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

/// Who traces a thread.
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

/// The names of the calls, each once.
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
