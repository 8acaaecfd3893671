//! Runs the command line of an OCI runtime without blocking until it ends.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use orlop_keeper_protocol::{
    CONSOLE_SOCKET, ExitStatus, Failure, FailureKind, RuntimeCall, monotonic_ns,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::call::Call;
use crate::child::Process;
use crate::connection::ReplyTo;
use crate::console::Console;
use crate::failure::{failure, kind_of};
use crate::keeper::Keeper;
use crate::null::nothing;
use crate::pipe::pipe;
use crate::pod::{By, View};
use crate::purpose::Purpose;
use crate::reactor::{Interest, Source, Watch};
use crate::sys::spawn::Program;
use crate::text::{tail_of, text};

/// Time that the keeper waits for an error message after a runtime failed without one.
const EXPLANATION_LIMIT: Duration = Duration::from_millis(50);

/// Standard streams of a runtime.
pub(crate) enum Streams {
    /// No input; output is kept for the failure message.
    Own,
    /// The streams of the process that the runtime creates.
    Passed([OwnedFd; 3]),
}

/// A call of the runtime that has ended.
pub(crate) struct Finished {
    pub(crate) purpose: Purpose,
    pub(crate) console: Option<Console>,
    /// The request to answer, unless it was answered before with a timeout.
    pub(crate) reply_to: Option<ReplyTo>,
    /// Whether the client was answered with a timeout, and so assumes that nothing was done.
    pub(crate) given_up: bool,
    /// Whether the call succeeded.
    pub(crate) outcome: Result<(), Failure>,
}

impl Keeper {
    /// Starts a runtime in its own process group. [`Keeper::call_finished`] handles the outcome.
    pub(crate) fn start_call(
        &mut self,
        call: RuntimeCall,
        streams: Streams,
        console: bool,
        purpose: Purpose,
        reply_to: ReplyTo,
    ) -> Result<Pid, Failure> {
        let patience = patience(&call)?;
        let key = self.key();
        let io_failure = |error: io::Error| {
            let message = format!("cannot prepare the runtime call: {error}");
            failure(kind_of(&error, FailureKind::Failed), message)
        };
        let console = if console {
            Some(Console::listen(&self.pod, &self.reactor, key).map_err(io_failure)?)
        } else {
            None
        };
        let console_path = console.as_ref().map(Console::path);
        let words = call.argv.into_iter().map(|word| match console_path {
            Some(path) if word == CONSOLE_SOCKET => path.as_os_str().to_owned(),
            _ => word,
        });
        let words: Vec<OsString> = words.collect();
        let Some(name) = words.first().cloned() else {
            let message = "the runtime's command line is empty";
            return Err(failure(FailureKind::Invalid, message));
        };
        let unstarted = |error: io::Error| {
            let message = format!("executing {}: {error}", Path::new(&name).display());
            failure(kind_of(&error, FailureKind::RuntimeMissing), message)
        };
        let mut view = None;
        if let Purpose::Create(making) = &purpose {
            let mounts = self.containers.get(&making.container).into_iter();
            let mounts = mounts.flat_map(|container| &container.mounts);
            let by = if making.attaches {
                By::Runtime
            } else {
                By::Keeper
            };
            view = Some(self.pod.view(mounts, &call.cwd, by).map_err(io_failure)?);
        }
        let told = view.iter().flat_map(View::environment);
        let env: Vec<OsString> = self.pod.env.iter().cloned().chain(told).collect();
        if view.is_none() {
            view = self.pod.view_of_host(&call.cwd).map_err(io_failure)?;
        }
        let mut program = Program::new(words, &env).map_err(unstarted)?;
        if call.protected {
            program.protect(self.pod.program.as_ref(), self.pod.has_few_mounts());
        }
        // A view changes to this directory itself.
        if view.is_none() && !call.cwd.as_os_str().is_empty() {
            let cwd = call.cwd.as_os_str();
            program.current_dir(cwd).map_err(io_failure)?;
        }
        let (streams, output) = match streams {
            Streams::Own => {
                let (ours, theirs) = pipe().map_err(io_failure)?;
                let copy = theirs.try_clone().map_err(io_failure)?;
                let nothing = nothing().map_err(io_failure)?;
                let source = Source::CallOutput(key);
                let watch = Watch::new(&self.reactor, ours, source, Interest::Read);
                let watch = watch.map_err(|error| io_failure(error.into()))?;
                ([nothing, theirs, copy], Some(watch))
            }
            Streams::Passed(streams) => {
                let [stdin, stdout, stderr] = streams;
                let mut own = |stream| self.nulls.not_the_nodes(stream).map_err(io_failure);
                ([own(stdin)?, own(stdout)?, own(stderr)?], None)
            }
        };
        let _ = fs::remove_file(&call.log);
        // It is reaped with all other children.
        let pid = start_in(view.as_ref(), &program, &streams).map_err(unstarted)?;
        if view.is_some_and(|view| view.is_own()) {
            // Without this descriptor the namespace would end with its last process, and delay the report of that end.
            self.closing.later(mounts_of(pid));
        }
        self.closing.later(program.protection());
        self.processes.insert(pid.as_raw_pid(), Process::Call(key));
        let call = Call {
            purpose,
            console,
            reply_to: Some(reply_to),
            given_up: false,
            pid,
            begun: Instant::now(),
            deadline: Instant::now() + patience,
            limit_ms: call.timeout_ms,
            log: call.log,
            output,
            printed: Vec::new(),
            failed: None,
        };
        self.calls.insert(key, call);
        Ok(pid)
    }

    /// Returns the start of the oldest call that is still running.
    pub(crate) fn oldest_call(&self) -> Option<Instant> {
        self.calls.values().map(|call| call.begun).min()
    }

    /// Handles output that a runtime has printed.
    pub(crate) fn call_printed(&mut self, key: u64) {
        if let Some(call) = self.calls.get_mut(&key) {
            call.read_output();
        }
    }

    /// Handles a runtime that hands over a terminal.
    pub(crate) fn console_ready(&mut self, key: u64) {
        if let Some(console) = self
            .calls
            .get_mut(&key)
            .and_then(|call| call.console.as_mut())
        {
            console.progress();
        }
    }

    /// Gives up on runtimes that take too long: replies now, kills them, and cleans up once they are dead, which may
    /// never happen.
    pub(crate) fn late_calls(&mut self, now: Instant) {
        let late: Vec<u64> = self
            .calls
            .iter()
            .filter(|(_, call)| call.deadline().is_some_and(|deadline| deadline <= now))
            .map(|(key, _)| *key)
            .collect();
        for key in late {
            let Some(call) = self.calls.get_mut(&key) else {
                continue;
            };
            if let Some(status) = call.failed.clone() {
                self.call_ended(key, &status);
                continue;
            }
            let _ = kill_process_group(call.pid, Signal::KILL);
            self.too_late(key);
        }
    }

    /// Replies that a runtime takes too long.
    fn too_late(&mut self, key: u64) {
        let Some(call) = self.calls.get_mut(&key) else {
            return;
        };
        call.read_output();
        let answer = Failure {
            kind: FailureKind::TimedOut,
            message: format!(
                "it did not finish within {} ms and was killed",
                call.limit_ms
            ),
            runtime_log: tail_of(&call.log),
            runtime_output: text(&call.printed),
        };
        if let Some(reply_to) = call.reply_to.take() {
            self.reply::<orlop_keeper_protocol::Done>(reply_to, Err(answer));
            let told = self.hears(reply_to);
            if let Some(call) = self.calls.get_mut(&key) {
                call.given_up = told;
            }
        }
    }

    /// Handles a runtime that has ended.
    pub(crate) fn call_ended(&mut self, key: u64, status: &ExitStatus) {
        // The keeper may have been stopped or had no processor for a long time. A container that a runtime created
        // after its client's timeout is not started.
        if self.calls.get(&key).is_some_and(Call::is_late) {
            self.too_late(key);
        }
        let Some(mut call) = self.calls.remove(&key) else {
            return;
        };
        call.read_output();
        let silent =
            || call.reply_to.is_some() && call.printed.is_empty() && tail_of(&call.log).is_empty();
        if status.code != 0 && call.failed.is_none() && silent() {
            // A child of the runtime may be about to write the reason.
            call.failed = Some(status.clone());
            call.deadline = Instant::now() + EXPLANATION_LIMIT;
            self.calls.insert(key, call);
            return;
        }
        if let Some(console) = &mut call.console {
            console.progress();
        }
        let outcome = if status.code == 0 {
            Ok(())
        } else {
            let message = match status.signal {
                0 => format!("it exited with code {}", status.code),
                signal => format!("it was killed by signal {signal}"),
            };
            Err(Failure {
                kind: FailureKind::RuntimeFailed,
                message,
                runtime_log: tail_of(&call.log),
                runtime_output: text(&call.printed),
            })
        };
        let _ = fs::remove_file(&call.log);
        self.call_finished(Finished {
            purpose: call.purpose,
            console: call.console,
            reply_to: call.reply_to,
            given_up: call.given_up,
            outcome,
        });
    }
}

/// Returns how long the client waits for a runtime. The keeper may read a request late, for example because it was
/// stopped: then the client may be gone, and nobody would own what the runtime creates.
pub(crate) fn patience(call: &RuntimeCall) -> Result<Duration, Failure> {
    let limit = Duration::from_millis(call.timeout_ms.into());
    if call.until_ns == 0 {
        return Ok(limit);
    }
    match call.until_ns.saturating_sub(monotonic_ns()) {
        0 => {
            let message = "the request arrived too late; its caller no longer waits";
            Err(failure(FailureKind::TimedOut, message))
        }
        left => Ok(limit.min(Duration::from_nanos(left))),
    }
}

/// Starts a program that enters a view before it is executed.
#[allow(
    unsafe_code,
    reason = "what is done before is done by system calls alone"
)]
fn start_in(view: Option<&View>, program: &Program, streams: &[OwnedFd; 3]) -> io::Result<Pid> {
    let prepare = || view.map_or(Ok(()), View::enter);
    // SAFETY: everything that allocates was done when the view was made.
    unsafe { program.start(streams, &prepare) }
}

/// Returns the mount namespace of a process that was just started.
fn mounts_of(pid: Pid) -> Option<OwnedFd> {
    let path = format!("/proc/{}/ns/mnt", pid.as_raw_pid());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}
