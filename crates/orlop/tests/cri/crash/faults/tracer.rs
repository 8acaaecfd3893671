//! strace on the daemon: what it calls, and which of it fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use orlop_testkit::Node;
use orlop_testkit::process::Process;
use orlop_testkit::strace::{self, tracer_of};
use rustix::process::{Signal, kill_process};

use super::call;

/// How long strace may take to attach.
const ATTACH_LIMIT: Duration = Duration::from_secs(20);

/// How long strace may take to let go by itself. It never does while a parent waits for the child
/// that borrows its memory; the kernel lets go of both when strace is killed.
const DETACH_LIMIT: Duration = Duration::from_millis(300);

/// All threads are followed, and all children.
const FOLLOWING: [&str; 4] = ["-f", "-y", "-s", "200"];

/// The children only until they become other programs.
const NO_PROGRAMS: [&str; 2] = ["-b", "execve"];

/// What makes a process out of another.
const FORKS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];

/// How often each call was made by the thread that made it most, which is how strace counts.
pub(super) type Counts = BTreeMap<String, u32>;

/// A strace of the daemon.
#[derive(Debug)]
pub(super) struct Tracer {
    who: Who,
    output: PathBuf,
}

#[derive(Debug)]
enum Who {
    Attached(Process),
    /// It became a grandchild of the daemon's, so that nobody sees a parent between.
    Beneath {
        daemon: Option<u32>,
    },
}

impl Tracer {
    /// Whether one can be had here.
    pub(super) fn can_trace() -> Result<(), String> {
        strace::can_trace()
    }

    /// Attaches to the daemon, or to a keeper.
    pub(super) fn attach(node: &Node, pid: u32, what: &What<'_>) -> Self {
        let (output, log) = (output(node), node.scratch().path("strace.log"));
        for file in [&output, &log] {
            let _ = fs::remove_file(file);
        }
        let pid = pid.to_string();
        let mut command = Command::new("strace");
        command.args(FOLLOWING).args(what.arguments());
        command.arg("-o").arg(&output).args(["-p", &pid]);
        let mut process = Process::spawn("strace", &mut command, &log);
        let attached = format!("Process {pid} attached");
        process.wait_until(ATTACH_LIMIT, "attach", || {
            fs::read_to_string(&log).is_ok_and(|said| said.contains(&attached))
        });
        Self {
            who: Who::Attached(process),
            output,
        }
    }

    /// What a daemon is to be started beneath.
    pub(super) fn beneath(node: &Node, what: &What<'_>) -> Command {
        let output = output(node);
        let _ = fs::remove_file(&output);
        let mut command = Command::new("strace");
        // Signals are to reach it also while it waits.
        command.args(["-D", "-I", "2"]).args(FOLLOWING);
        command.args(what.arguments()).arg("-o").arg(output);
        command
    }

    /// The one that a daemon was started beneath.
    pub(super) fn of_start(node: &Node) -> Self {
        Self {
            who: Who::Beneath {
                daemon: node.pid_if_any(),
            },
            output: output(node),
        }
    }

    /// The calls that were made to fail so far.
    pub(super) fn injected(&self) -> Vec<String> {
        injected(&self.output)
    }

    /// Lets go of the daemon; which calls were made to fail.
    pub(super) fn end(mut self) -> Vec<String> {
        self.let_go();
        injected(&self.output)
    }

    /// Lets go of the daemon; which calls it made.
    pub(super) fn counts(mut self) -> Counts {
        self.let_go();
        count(&read(&self.output))
    }

    /// Lets go of the daemon; which programs its children became.
    pub(super) fn executed(mut self) -> BTreeSet<String> {
        self.let_go();
        executed(&read(&self.output))
    }

    /// Lets go of the daemon; which programs its children became, and theirs.
    pub(super) fn executed_by_all(mut self) -> BTreeSet<String> {
        self.let_go();
        let output = read(&self.output);
        output
            .lines()
            .filter_map(executes)
            .map(str::to_owned)
            .collect()
    }

    fn let_go(&mut self) {
        let daemon = match &mut self.who {
            Who::Attached(process) => {
                process.stop(DETACH_LIMIT);
                return;
            }
            Who::Beneath { daemon } => *daemon,
        };
        let Some(daemon) = daemon else { return };
        let deadline = Instant::now() + DETACH_LIMIT;
        while let Some(tracer) = tracer_of(daemon) {
            let late = Instant::now() > deadline;
            let signal = if late { Signal::KILL } else { Signal::TERM };
            let _ = kill_process(tracer, signal);
            sleep(Duration::from_millis(2));
        }
    }
}

/// What is to be watched.
#[derive(Debug, Clone, Copy)]
pub(super) enum What<'a> {
    /// All calls.
    All,
    /// Each thread's `nth` call is to fail, counted from now.
    Fails {
        call: &'a str,
        error: &'a str,
        nth: u32,
    },
    /// Which programs are executed.
    Executions,
    /// Each child that would become this program is to fail to.
    ExecutionFails { program: &'a str, error: &'a str },
}

impl What<'_> {
    fn arguments(&self) -> Vec<String> {
        let (programs, rest) = match self {
            Self::All => (
                &NO_PROGRAMS[..],
                vec!["-e".to_owned(), "trace=all".to_owned()],
            ),
            Self::Fails { call, error, nth } => {
                // Else it would not let go of a child there.
                let trace = format!("trace={call},execve");
                let inject = format!("inject={call}:error={error}:when={nth}");
                (
                    &NO_PROGRAMS[..],
                    vec!["-e".to_owned(), trace, "-e".to_owned(), inject],
                )
            }
            Self::Executions => {
                let trace = format!("trace=execve,{}", FORKS.join(","));
                (&[][..], vec!["-e".to_owned(), trace])
            }
            Self::ExecutionFails { program, error } => {
                let inject = format!("inject=execve:error={error}:when=1");
                let path = ["-P".to_owned(), (*program).to_owned()];
                let trace = ["-e".to_owned(), "trace=execve".to_owned()];
                let inject = ["-e".to_owned(), inject];
                (&[][..], [path, trace, inject].concat())
            }
        };
        let programs = programs.iter().map(|&word| word.to_owned());
        programs.chain(rest).collect()
    }
}

fn output(node: &Node) -> PathBuf {
    node.scratch().path("strace.out")
}

fn read(output: &Path) -> String {
    String::from_utf8_lossy(&fs::read(output).unwrap_or_default()).into_owned()
}

fn injected(output: &Path) -> Vec<String> {
    let output = read(output);
    let injected = output.lines().filter(|line| line.ends_with("(INJECTED)"));
    injected.map(str::to_owned).collect()
}

/// The programs of those whose parents are still what they were; what these then execute is their
/// own affair.
fn executed(output: &str) -> BTreeSet<String> {
    let mut parents = BTreeMap::new();
    let mut programs: BTreeMap<&str, &str> = BTreeMap::new();
    for line in output.lines() {
        let Some((process, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        let begun = rest.trim_start_matches("<... ");
        if FORKS.iter().any(|fork| begun.starts_with(fork))
            && let Some((_, child)) = rest.rsplit_once(" = ")
        {
            parents.insert(child, process);
        }
        if let Some(program) = executes(line) {
            programs.entry(process).or_insert(program);
        }
    }
    let is_of_another = |process: &str| {
        let parent_of = |process: &&str| parents.get(process).copied();
        iter::successors(parent_of(&process), parent_of).any(|it| programs.contains_key(it))
    };
    let own = programs
        .iter()
        .filter(|(process, _)| !is_of_another(process));
    own.map(|(_, program)| (*program).to_owned()).collect()
}

/// The program that somebody becomes by the call of this line.
fn executes(line: &str) -> Option<&str> {
    let (_, call) = line.split_once(' ')?;
    let program = call.trim_start().strip_prefix("execve(\"")?;
    program.split_once('"').map(|(program, _)| program)
}

fn count(output: &str) -> Counts {
    let mut by_thread: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for (thread, name, _) in strace::lines(output) {
        if !call::is_spared(name) {
            *by_thread.entry((thread, name)).or_default() += 1;
        }
    }
    let mut counts = Counts::new();
    for ((_, name), count) in by_thread {
        let most = counts.entry(name.to_owned()).or_default();
        *most = count.max(*most);
    }
    counts
}
